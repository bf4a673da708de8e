package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
	"github.com/keyturn/keyturn/store/redisstore/internal/send"
)

// What may be wrong beyond what [driver.Store] knows. What the server says of
// itself, ErrReadOnly, ErrNoReplicas and ErrOutOfMemory, also matches
// driver.ErrUnavailable.
var (
	// ErrOwner: the request's owner is empty, or contains a colon or white space.
	// The engine's never do.
	ErrOwner = errors.New("redisstore: not an owner")
	// ErrWrongType: the lock's key holds a list, a hash or the like, so somebody
	// else uses the name for something that is not a lock.
	ErrWrongType = errors.New("redisstore: the key holds something that is not a lock")
	// ErrCorrupt: what came from Redis is not what this package writes there.
	ErrCorrupt = script.ErrCorrupt
	// ErrReadOnly: the server is a replica.
	ErrReadOnly = errors.New("redisstore: the server is a read-only replica")
	// ErrNoReplicas: too few replicas have the write; see [WithReplicas] and
	// Redis' min-replicas-to-write.
	ErrNoReplicas = errors.New("redisstore: not enough replicas")
	// ErrOutOfMemory: the server has reached maxmemory. Leases that are held can
	// still be renewed and released.
	ErrOutOfMemory = errors.New("redisstore: the server is out of memory")
)

// failure is the error for what kept a request from being carried out. Only the
// typed errors of this package and core come out of here.
func failure(op, key string, err error) error {
	switch {
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("redisstore: %s of %q: %w", op, key, err)
	case script.Says(err, "WRONGTYPE"):
		return fmt.Errorf("%w: %s of %q: %w", ErrWrongType, op, key, err)
	case script.Says(err, "READONLY"):
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	case script.Says(err, "NOREPLICAS"):
		err = fmt.Errorf("%w: %w", ErrNoReplicas, err)
	case script.Says(err, "OOM"):
		err = fmt.Errorf("%w: %w", ErrOutOfMemory, err)
	}
	refused := errors.Is(err, ErrReadOnly) || errors.Is(err, ErrNoReplicas) || errors.Is(err, ErrOutOfMemory)
	return &driver.UnavailableError{Op: op, Key: key, Err: err, Refused: refused}
}

// silence is the error for a request that its context ended first.
func silence(ctx context.Context) error {
	return fmt.Errorf("no answer from Redis: %w", context.Cause(ctx))
}

// lost is the error for a lease that is not its owner's.
func lost(key string, g driver.Grant) error {
	return &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
}

// confirmed is nil if as many replicas have the request's write as it waits for. Otherwise
// a failover may forget it.
func confirmed(r *send.Request) error {
	if r.Acks < int64(r.Replicas) {
		return fmt.Errorf("%w: %d of %d have it", ErrNoReplicas, r.Acks, r.Replicas)
	}
	return nil
}
