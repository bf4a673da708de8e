package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// Errors in addition to those of [driver.Store]. ErrReadOnly, ErrNoReplicas and ErrOutOfMemory,
// which the server reports about itself, also match driver.ErrUnavailable.
var (
	// ErrWrongType: the lock's key, or another key of the lock such as its record, holds a type that
	// the store does not write there. Somebody else uses the name for something that is not a lock. It
	// also matches driver.ErrForeign.
	ErrWrongType = fmt.Errorf("redisstore: %w", driver.ErrForeign)
	// ErrCorrupt: Redis returned something that this package does not write there. It also matches
	// driver.ErrForeign.
	ErrCorrupt = script.ErrCorrupt
	// ErrReadOnly: the server is a replica.
	ErrReadOnly = errors.New("redisstore: the server is a read-only replica")
	// ErrNoReplicas: too few replicas have the write. See [WithReplicas] and Redis'
	// min-replicas-to-write.
	ErrNoReplicas = errors.New("redisstore: not enough replicas")
	// ErrOutOfMemory: the server has reached maxmemory. Leases that are held can
	// still be renewed and released.
	ErrOutOfMemory = errors.New("redisstore: the server is out of memory")
)

// failure is the error for a request that was not carried out. It returns only the typed errors
// of this package and of package driver.
func failure(op, key string, err error) error {
	switch {
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("redisstore: %s of %q: %w", op, key, err)
	case script.Forbidden(err) != "":
		err = fmt.Errorf("the user may not run %s, which the store needs (docs/operations.md, Permissions): %w", script.Forbidden(err), err)
	case script.Says(err, "unauthenticated"): // see NoLogin
		err = fmt.Errorf("NOAUTH Authentication required: %w", err)
	case script.NoCommand(err):
		err = fmt.Errorf("the server is older than Redis 6.2, or has renamed a command: %w", err)
	case script.Says(err, "WRONGTYPE"):
		return fmt.Errorf("%w: %s of %q: %w", ErrWrongType, op, key, err)
	case script.Says(err, "READONLY"):
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	case script.Says(err, "NOREPLICAS"):
		err = fmt.Errorf("%w: %w", ErrNoReplicas, err)
	case script.Says(err, "OOM"):
		err = fmt.Errorf("%w: %w", ErrOutOfMemory, err)
	}
	// An error of the server is an answer, whatever it says. The server may go on serving others.
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: script.Refused(err) || errors.Is(err, ErrNoReplicas)}
}

// silence is the error for a request whose context ended before the answer came.
func silence(ctx context.Context) error {
	return fmt.Errorf("no answer from Redis: %w", context.Cause(ctx))
}

// lost is the error for a lease that does not belong to its owner any more.
func lost(key string, g driver.Grant) error {
	return &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
}

// confirmed returns nil if as many replicas as required have the request's write. Otherwise a
// failover may forget it.
func confirmed(r *send.Request) error {
	if r.Acks < int64(r.Replicas) {
		return fmt.Errorf("%w: %d of %d have it", ErrNoReplicas, r.Acks, r.Replicas)
	}
	return nil
}
