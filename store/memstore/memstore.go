package memstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Store implements [driver.Store], with everything that is optional there. Make one
// with [New]; it is safe for concurrent use.
type Store struct {
	mem       *memory
	wanted    atomic.Pointer[func(key, owner string)] // the engine's; nil: there is none yet
	closed    chan struct{}
	closeOnce sync.Once
}

var _ driver.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return open(newMemory()) }

// Peer makes another store on the same leases and records, as a second process would on a
// shared backend. Each store is closed on its own. So several engines of one process, each of
// which closes its store, can share their locks.
func (s *Store) Peer() *Store { return open(s.mem) }

func open(mem *memory) *Store { return &Store{mem: mem, closed: make(chan struct{})} }

// Describe implements [driver.Store]: the name is "memory".
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name: "memory", Local: true,
		Shared: true, Permits: true, Sets: true, Stays: true, Ledger: true, Inspector: true, OnWanted: s.onWanted,
	}
}

// Acquire implements [driver.Store]. An invalid claim gets an error that matches
// driver.ErrInvalidClaim. A claim on a key that the owner holds in another mode gets a
// [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if err := check(req.Claims); err != nil {
		return driver.Grant{}, err
	}
	if s.isClosed() {
		return driver.Grant{}, driver.ErrClosed
	}
	if len(req.Claims) > 1 {
		return s.acquireSet(ctx, req)
	}
	a, err := s.acquire(ctx, req, false)
	return a.grant, err
}

// check refuses a claim that would wait for a place that never comes free. The engine has
// checked everything else.
func check(claims []driver.Claim) error {
	for _, c := range claims {
		if c.Mode != driver.ModeExclusive {
			if err := c.Validate(); err != nil {
				return err
			}
		}
	}
	if len(claims) == 0 {
		return &driver.ClaimError{Reason: "is empty"}
	}
	return nil
}

// Begin implements [driver.Ledger]. An execution has one exclusive claim; anything else gets an
// error that matches [errors.ErrUnsupported].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	if !isExecution(req.Claims) {
		return driver.Grant{}, nil, &driver.UnsupportedError{Feature: "executions of anything but one exclusive claim"}
	}
	if s.isClosed() {
		return driver.Grant{}, nil, driver.ErrClosed
	}
	a, err := s.acquire(ctx, req, true)
	if a.rec == nil {
		return a.grant, nil, err
	}
	rec := clone(*a.rec) // a copy, which the caller may change
	return driver.Grant{}, &rec, nil
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// acquire asks for one claim. With once, it asks for the record instead, if there is one.
func (s *Store) acquire(ctx context.Context, req driver.Request, once bool) (answer, error) {
	shard := s.mem.shard(req.Claims[0].Key)
	a, w, err := shard.ask(s.from(req), once)
	a.want.tell()
	if w == nil {
		return a, err
	}
	if held, ok := err.(*driver.HeldError); ok && req.OnHeld != nil {
		req.OnHeld(*held)
	}
	select {
	case a := <-w.done:
		return a, nil
	case <-ctx.Done():
		err = shard.leave(w)
	case <-s.closed:
		_ = shard.leave(w)
		err = driver.ErrClosed
	}
	select {
	case a := <-w.done: // the answer came before the end of ctx
		return a, nil
	default:
		return answer{}, err
	}
}

// Renew implements [driver.Store].
func (s *Store) Renew(_ context.Context, grants []driver.Grant) []error {
	errs, now := make([]error, len(grants)), time.Now()
	for i, g := range grants {
		errs[i] = s.mem.renew(g, now)
	}
	return errs
}

// Release implements [driver.Store].
func (s *Store) Release(_ context.Context, g driver.Grant) error {
	return s.mem.release(g)
}

// Complete implements [driver.Ledger].
func (s *Store) Complete(_ context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	return s.mem.complete(g, clone(rec), retention)
}

// Raise implements [driver.Ledger].
func (s *Store) Raise(_ context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if s.isClosed() {
		return 0, driver.ErrClosed
	}
	return s.mem.raise(key, version, retention), nil
}

// Close implements [driver.Store]. Waiters get ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return nil
}
