package memstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// Store implements [driver.Store], with everything that is optional there. Make one
// with [New]; it is safe for concurrent use.
type Store struct {
	mem    *memory
	wanted atomic.Pointer[func(key, owner string)] // the engine's; nil: there is none yet
	life   context.Context                         // ends with Close
	end    context.CancelFunc
}

var _ driver.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return open(newMemory()) }

// Peer makes another store on the same leases and records, as a second process would on a
// shared backend. Each store is closed on its own. So several engines of one process, each of
// which closes its store, can share their locks.
func (s *Store) Peer() *Store { return open(s.mem) }

func open(mem *memory) *Store {
	s := &Store{mem: mem}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Describe implements [driver.Store]: the name is "memory".
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name: "memory", Local: true,
		Shared: true, Permits: true, Sets: true, MinHold: true, Ledger: true, Inspector: true, OnWanted: s.onWanted,
	}
}

// Acquire implements [driver.Store]. An invalid claim gets an error that matches
// driver.ErrInvalidClaim. A claim on a key that the owner holds in another mode gets a
// [*driver.DeadlockError].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if err := check(req.Claims); err != nil {
		return driver.Grant{}, err
	}
	r := keystate.Request{Request: req}
	a, err := s.acquire(ctx, &r)
	return a.Grant, err
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

// acquire asks for claims, and waits for them if need be.
func (s *Store) acquire(ctx context.Context, r *keystate.Request) (answer, error) {
	if s.life.Err() != nil {
		return answer{}, driver.ErrClosed
	}
	r.Linger = r.Linger && s.wanted.Load() != nil
	a, w, err := s.ask(r, nil)
	if w == nil {
		return a, err
	}
	return s.wait(ctx, r, w, err)
}

// Renew implements [driver.Store].
func (s *Store) Renew(_ context.Context, grants []driver.Grant) []error {
	errs, st := make([]error, len(grants)), keystate.State{Now: time.Now()}
	for i := range grants {
		g := &grants[i]
		set := s.mem.begin(&st, g.Claims)
		errs[i] = s.mem.outcome(g, st.Renew(g), st.Now)
		s.mem.end(set, &st)
	}
	return errs
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(_ context.Context, g driver.Grant) (err error) {
	if s.life.Err() != nil {
		return driver.ErrClosed
	}
	s.mem.step(g.Claims, func(st *keystate.State) { err = s.mem.outcome(&g, st.Downgrade(&g), st.Now) })
	return err
}

// Release implements [driver.Store].
func (s *Store) Release(_ context.Context, g driver.Grant) error {
	st := keystate.State{Now: time.Now()}
	set := s.mem.begin(&st, g.Claims)
	loss, _ := st.Release(&g)
	err := s.mem.outcome(&g, loss, st.Now)
	s.mem.end(set, &st)
	return err
}

// Close implements [driver.Store]. Waiters get ErrClosed.
func (s *Store) Close() error {
	s.end()
	return nil
}
