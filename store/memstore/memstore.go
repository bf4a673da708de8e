package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Store implements [core.Store] and [core.Ledger] for exclusive claims. Make
// one with [New]; it is safe for concurrent use.
type Store struct {
	mem       *memory
	closed    chan struct{}
	closeOnce sync.Once
}

var (
	_ core.Store  = (*Store)(nil)
	_ core.Ledger = (*Store)(nil)
)

// New makes an empty store.
func New() *Store { return open(newMemory()) }

// Peer makes another store on the same leases and records, as a second process
// would on a shared backend. Each is closed for itself, so that the engines of
// one process, which close their stores, can share what they lock.
func (s *Store) Peer() *Store { return open(s.mem) }

func open(mem *memory) *Store { return &Store{mem: mem, closed: make(chan struct{})} }

// Acquire implements [core.Store].
func (s *Store) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	a, err := s.acquire(ctx, req, false)
	return a.grant, err
}

// Begin implements [core.Ledger].
func (s *Store) Begin(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
	a, err := s.acquire(ctx, req, true)
	if a.rec == nil {
		return a.grant, nil, err
	}
	rec := clone(*a.rec) // the caller may do with it what it likes
	return core.Grant{}, &rec, nil
}

// acquire asks for the lease or, with once, for the record instead of it.
func (s *Store) acquire(ctx context.Context, req core.Request, once bool) (answer, error) {
	if len(req.Claims) != 1 || req.Claims[0].Mode != core.ModeExclusive {
		return answer{}, &core.UnsupportedError{Feature: "anything but one exclusive claim"}
	}
	select {
	case <-s.closed:
		return answer{}, core.ErrClosed
	default:
	}
	a, w, held := s.mem.shard(req.Claims).ask(req, once)
	if held == nil {
		return a, nil
	}
	if w == nil {
		return answer{}, held
	}
	if req.OnHeld != nil {
		req.OnHeld(*held)
	}
	var err error
	select {
	case a := <-w.done:
		return a, nil
	case <-ctx.Done():
		err = s.mem.shard(req.Claims).leave(w)
	case <-s.closed:
		_ = s.mem.shard(req.Claims).leave(w)
		err = core.ErrClosed
	}
	select {
	case a := <-w.done: // the answer came first
		return a, nil
	default:
		return answer{}, err
	}
}

// Renew implements [core.Store].
func (s *Store) Renew(_ context.Context, grants []core.Grant) []error {
	errs, now := make([]error, len(grants)), time.Now()
	for i, g := range grants {
		errs[i] = s.mem.shard(g.Claims).renew(g, now)
	}
	return errs
}

// Release implements [core.Store].
func (s *Store) Release(_ context.Context, g core.Grant) error {
	return s.mem.shard(g.Claims).release(g)
}

// Complete implements [core.Ledger].
func (s *Store) Complete(_ context.Context, g core.Grant, rec core.Record, retention time.Duration) error {
	return s.mem.shard(g.Claims).complete(g, clone(rec), retention)
}

// Close implements [core.Store]: waiters get ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return nil
}
