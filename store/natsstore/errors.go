package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// errConflict says that somebody else has written to an entry since it was read.
var errConflict = errors.New("natsstore: others changed the lock")

// errNoLeader: the servers are about to choose the leader of the bucket.
var errNoLeader = errors.New("natsstore: the bucket has no leader")

// settingsError says which setting of the bucket can't keep the promises of the store.
type settingsError struct{ bucket, want string }

func (e *settingsError) Error() string {
	return fmt.Sprintf("natsstore: the bucket %q has settings that this store can't use: want %s", e.bucket, e.want)
}

// Answers for which the client has no names.
const (
	codeWrongSequence jetstream.ErrorCode = 10164 // of an entry in a batch, which another batch is about to change
	codeIncomplete    jetstream.ErrorCode = 10176 // a batch: the leader has changed meanwhile, or too many were under way
	codeManyBatches   jetstream.ErrorCode = 10210 // are under way, as later servers say it
)

func apiCode(err error) jetstream.ErrorCode {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// isConflict reports whether another request was in the way, so that the same one may succeed when it is
// decided anew.
func isConflict(err error) bool {
	code := apiCode(err)
	return errors.Is(err, errConflict) || code == jetstream.JSErrCodeStreamWrongLastSequence || code == codeWrongSequence ||
		code == codeIncomplete || code == codeManyBatches
}

// isRefusal reports whether the servers have answered that they won't do it, so that asking again does not help.
func isRefusal(err error) bool {
	var settings *settingsError
	if errors.As(err, &settings) || errors.Is(err, errValue) || errors.Is(err, nats.ErrMaxPayload) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return true
	}
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && api.Code >= 400 && api.Code < 500 && !isConflict(err) && !errors.Is(err, jetstream.ErrStreamNotFound)
}

// denied returns what the server said last to the connection, if that is about a request of this store. A user
// without a permission gets no answer to the request itself. What was answered is not asked about here: the client
// keeps its last error, also when the permission has been given since.
func (s *Store) denied() error {
	if last, known := briefly(s.calls.Go, s.nc.LastError); known && s.bars(last) {
		return &deniedError{last, s.bucket.subject("")}
	}
	return nil
}

// deniedError says what the user needs. The server names the subject of one key, which may be another request's, and
// which core.WithKeyFilter would not find in it.
type deniedError struct {
	last  error
	entry string // what the subjects of all keys begin with
}

func (e *deniedError) Error() string {
	before, subject, found := strings.Cut(e.last.Error(), e.entry)
	if !found {
		return before
	}
	_, after, _ := strings.Cut(subject, `"`)
	return before + e.entry + `>"` + after
}

func (e *deniedError) Unwrap() error { return e.last }

// bars reports whether last says that requests of this store are not allowed.
func (s *Store) bars(last error) bool {
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return false
	}
	ours := []string{s.bucket.subject(""), "$JS.API.STREAM.INFO.KV_" + s.cfg.bucket, "$JS.API.STREAM.MSG.GET.KV_" + s.cfg.bucket}
	return slices.ContainsFunc(ours, func(subject string) bool { return strings.Contains(last.Error(), subject) })
}

// briefly asks the client for what it knows itself, and waits a moment at most. While the client dials a server
// that hangs, which takes up to two seconds, it answers nobody.
func briefly(start func(func()), ask func() error) (said error, answered bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, said, answered = waitloop.Await(ctx, start, func() (struct{}, error) { return struct{}{}, ask() }, nil)
	return said, answered
}

// failure is the error for a request that was not carried out.
func (s *Store) failure(op, key string, err error) error {
	refused := isRefusal(err)
	if !refused && !isConflict(err) {
		if denied := s.denied(); denied != nil {
			err, refused = fmt.Errorf("%w (%w)", denied, err), true
		} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer from NATS: %w", err)
		}
	}
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: refused}
}
