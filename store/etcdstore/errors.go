package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core/driver"
)

// errGone says that a lease that a transaction uses has run out. The transaction did nothing.
var errGone = errors.New("etcdstore: a lease has run out")

// errData says that a key does not hold what it should.
var errData = fmt.Errorf("%w: it was not written by this store", driver.ErrForeign)

// foreign is the error for a key whose value cannot be read.
func foreign(kv *mvccpb.KeyValue, err error) error {
	return fmt.Errorf("%w: %.1000q: %w", errData, kv.Key, err)
}

// codeOf returns the gRPC code of an error of etcd's client.
func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// refused reports whether the server has answered that it does not carry out the request. After
// other errors it may have done so.
func refused(err error) bool {
	switch codeOf(err) {
	case codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument,
		codes.FailedPrecondition, codes.NotFound, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// isGone reports whether etcd has answered that a lease does not exist.
func isGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// tooLarge reports whether the request is over a limit of the server or of the client.
func tooLarge(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) || codeOf(err) == codes.ResourceExhausted &&
		!errors.Is(err, rpctypes.ErrNoSpace) && !errors.Is(err, rpctypes.ErrTooManyRequests)
}

// failure is the package's failure. It names whom etcd does not let do what: the server says no more than that.
func (s *Store) failure(op, key string, err error) error {
	if codeOf(err) == codes.PermissionDenied {
		user := "the user of this client" // of a certificate
		if name := s.client.Username; name != "" {
			user = fmt.Sprintf("the user %q", name)
		}
		err = fmt.Errorf("%s may not read and write the keys that begin with %q: %w", user, s.cfg.prefix, err)
	}
	return failure(op, key, err)
}

// failure is the error for a request that was not carried out, or about which nobody knows.
func failure(op, key string, err error) error {
	var known *driver.UnavailableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, errData):
		return fmt.Errorf("etcdstore: %s of %q: %w", op, key, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer from etcd: %w", err)
		return &driver.UnavailableError{Op: op, Key: key, Err: err}
	}
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: refused(err)}
}
