package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Store implements [core.Store] with all that it can do, [core.Ledger] and
// [core.Inspector]. Make one with [New]; it is safe for concurrent use.
type Store struct {
	mem       *memory
	closed    chan struct{}
	closeOnce sync.Once
}

var (
	_ core.Store   = (*Store)(nil)
	_ core.Capable = (*Store)(nil)
	_ core.Ledger  = (*Store)(nil)
)

// New makes an empty store.
func New() *Store { return open(newMemory()) }

// Peer makes another store on the same leases and records, as a second process
// would on a shared backend. Each is closed for itself, so that the engines of
// one process, which close their stores, can share what they lock.
func (s *Store) Peer() *Store { return open(s.mem) }

func open(mem *memory) *Store { return &Store{mem: mem, closed: make(chan struct{})} }

// Name implements [core.Named]: "memory".
func (*Store) Name() string { return "memory" }

// Capabilities implements [core.Capable]: all.
func (s *Store) Capabilities() core.Capabilities {
	return core.Capabilities{Shared: true, Permits: true, Sets: true}
}

// Acquire implements [core.Store]. A claim that can't be is an error that
// matches core.ErrInvalidClaim; one of a key that the owner has in another mode
// is a [*core.DeadlockError], but for the downgrade.
func (s *Store) Acquire(ctx context.Context, req core.Request) (core.Grant, error) {
	if err := check(req.Claims); err != nil {
		return core.Grant{}, err
	}
	if s.isClosed() {
		return core.Grant{}, core.ErrClosed
	}
	if len(req.Claims) > 1 {
		return s.acquireSet(ctx, req)
	}
	a, err := s.acquire(ctx, req, false)
	return a.grant, err
}

// check refuses what would wait for a place that never comes. The engine has
// checked all the rest.
func check(claims []core.Claim) error {
	for _, c := range claims {
		if c.Mode != core.ModeExclusive {
			if err := c.Validate(); err != nil {
				return err
			}
		}
	}
	if len(claims) == 0 {
		return &core.ClaimError{Reason: "is empty"}
	}
	return nil
}

// Begin implements [core.Ledger]. Other than one exclusive claim, an error
// matches [errors.ErrUnsupported]: an execution is nobody else's.
func (s *Store) Begin(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
	if !isExecution(req.Claims) {
		return core.Grant{}, nil, &core.UnsupportedError{Feature: "executions of anything but one exclusive claim"}
	}
	if s.isClosed() {
		return core.Grant{}, nil, core.ErrClosed
	}
	a, err := s.acquire(ctx, req, true)
	if a.rec == nil {
		return a.grant, nil, err
	}
	rec := clone(*a.rec) // the caller may do with it what it likes
	return core.Grant{}, &rec, nil
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// acquire asks for one claim or, with once, for the record instead of it.
func (s *Store) acquire(ctx context.Context, req core.Request, once bool) (answer, error) {
	shard := s.mem.shard(req.Claims[0].Key)
	a, w, err := shard.ask(req, once)
	if w == nil {
		return a, err
	}
	if held, ok := err.(*core.HeldError); ok && req.OnHeld != nil {
		tell(req, *held, func() { shard.abandon(w) })
	}
	select {
	case a := <-w.done:
		return a, nil
	case <-ctx.Done():
		err = shard.leave(w)
	case <-s.closed:
		_ = shard.leave(w)
		err = core.ErrClosed
	}
	select {
	case a := <-w.done: // the answer came first
		return a, nil
	default:
		return answer{}, err
	}
}

// tell calls req.OnHeld. Should that panic nobody waits any more, and abandon
// keeps the key from who is not there.
func tell(req core.Request, held core.HeldError, abandon func()) {
	heard := false
	defer func() {
		if !heard {
			abandon()
		}
	}()
	req.OnHeld(held)
	heard = true
}

// Renew implements [core.Store].
func (s *Store) Renew(_ context.Context, grants []core.Grant) []error {
	errs, now := make([]error, len(grants)), time.Now()
	for i, g := range grants {
		errs[i] = s.mem.renew(g, now)
	}
	return errs
}

// Release implements [core.Store].
func (s *Store) Release(_ context.Context, g core.Grant) error {
	return s.mem.release(g)
}

// Complete implements [core.Ledger].
func (s *Store) Complete(_ context.Context, g core.Grant, rec core.Record, retention time.Duration) error {
	return s.mem.complete(g, clone(rec), retention)
}

// Raise implements [core.Ledger].
func (s *Store) Raise(_ context.Context, key string, version uint64, retention time.Duration) (uint64, error) {
	if s.isClosed() {
		return 0, core.ErrClosed
	}
	return s.mem.raise(key, version, retention), nil
}

// Close implements [core.Store]: waiters get ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return nil
}
