package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
)

// errNoSession says that there is no session at the moment.
var errNoSession = errors.New("zkstore: no session with the servers")

// errConflict says that the nodes of a lock have changed while they were read.
var errConflict = errors.New("zkstore: others changed the lock")

// isConflict reports whether another request was in the way, so that the same one may succeed when
// it is decided anew.
func isConflict(err error) bool {
	return errors.Is(err, errConflict) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) ||
		errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNotEmpty)
}

// refusals are answers of a server that repeating does not change.
var refusals = []error{
	zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrAPIError, zk.ErrNoChildrenForEphemerals, zk.ErrInvalidFlags, zk.ErrBadArguments,
	zk.ErrInvalidPath, zk.ErrShortBuffer, errData,
}

func isRefusal(err error) bool {
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}

// isBroken reports whether err leaves open what became of the request: the connection or the session
// has ended, or a server was about to end.
func isBroken(err error) bool { return err != nil && !isConflict(err) && !isRefusal(err) }

// failure is the error for a request of this store. One whose time was too short is no outage while the servers
// carry out others of this process. It must not have anybody run unlocked.
func (s *Store) failure(op, key string, err error) error {
	if op == "acquire" && isBroken(err) && !errors.Is(err, errNoSession) && s.link.answers() {
		err = fmt.Errorf("the servers answer other requests of this process, and not this one in time: %w", err)
		return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: true}
	}
	if _, ready, _, why := s.link.state(); !ready && isBroken(err) { // whether the caller's time has ended first, or the store's
		err = errors.Join(err, why)
	}
	return failure(op, key, err)
}

// failure is the error for a request that was not carried out.
func failure(op, key string, err error) error {
	if errors.Is(err, errData) {
		return fmt.Errorf("zkstore: %s of %q: %w", op, key, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer from ZooKeeper: %w", err)
	}
	if errors.Is(err, zk.ErrNoAuth) { // the server says no more than that
		err = fmt.Errorf("the ACL of the store's nodes does not let this session do that (WithAuth, WithACL): %w", err)
	}
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: isRefusal(err)}
}
