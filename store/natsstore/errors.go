package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

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
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == codeWrongSequence || code == codeIncomplete || code == codeManyBatches
}

// isRefusal reports whether the servers have answered that they won't do it, so that asking again does not help.
func isRefusal(err error) bool {
	var settings *settingsError
	if errors.As(err, &settings) || errors.Is(err, errValue) || errors.Is(err, nats.ErrMaxPayload) ||
		errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return true
	}
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && api.Code >= 400 && api.Code < 500 && !isConflict(err) && !errors.Is(err, jetstream.ErrStreamNotFound)
}

// deniedPause is how often a request without an answer looks whether it is denied.
const deniedPause = 100 * time.Millisecond

// heed carries out a request whose subject begins with subject. If the user may not publish there, no answer comes: the
// server tells only the connection, which keeps its last error until it breaks. So an error counts only if it is new
// since the request began.
func heed[T any](ctx context.Context, b *bucket, subject string, request func(context.Context) (T, error)) (T, error) {
	before := b.nc.LastError()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	look := time.AfterFunc(deniedPause, func() { // its goroutine ends with the request, or with a dial of the client's
		for ok := true; ok; ok = waitloop.Sleep(ctx, deniedPause) {
			if last := b.nc.LastError(); denies(last, subject) && last != before {
				cancel(last)
			}
		}
	})
	defer look.Stop()
	answer, err := request(ctx)
	if denied := context.Cause(ctx); err != nil && errors.Is(denied, nats.ErrPermissionViolation) {
		err = &deniedError{denied, b.subject("")}
	}
	return answer, err
}

func denies(err error, subject string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subject)
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

// failure is the error for a request that was not carried out.
func (s *Store) failure(op, key string, err error) error {
	if errors.Is(err, errValue) {
		return fmt.Errorf("natsstore: %s of %q: %w", op, key, err)
	}
	refused := isRefusal(err)
	if errors.Is(err, nats.ErrConnectionClosed) { // otherwise the client may dial, and answer nobody meanwhile
		if last := s.nc.LastError(); last != nil && !errors.Is(last, nats.ErrPermissionViolation) {
			err = fmt.Errorf("%w: %w", err, last) // why it has given up, such as a wrong password
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer from NATS: %w", err)
	}
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: refused}
}
