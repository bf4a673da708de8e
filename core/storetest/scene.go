package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
)

// long is the TTL of leases that must not run out while a test looks on: a
// store that lets waiters in only when a lease runs out is seen to be late.
const long = time.Minute

// settle is how long a test watches for what must not happen.
const settle = 20 * time.Millisecond

// scene is what a check plays in: the backend, and names nobody else uses.
type scene struct {
	testing.TB
	Harness
	begin bool
	// ctx ends when the test must be stuck.
	ctx context.Context
	run uint64 // random: backends outlive a run of the tests
	n   atomic.Uint64
}

func newScene(t testing.TB, h Harness, c check) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second+20*(h.TTL+h.Late))
	t.Cleanup(cancel)
	return &scene{TB: t, Harness: h, begin: c.begin, ctx: ctx, run: rand.Uint64()}
}

// open starts a process.
func (s *scene) open() core.Store {
	s.Helper()
	st := s.New(s.TB)
	s.Cleanup(func() { _ = st.Close() }) // the check may have closed it
	return st
}

func (s *scene) key() string {
	return fmt.Sprintf("storetest:%016x:%d", s.run, s.n.Add(1))
}

// owner makes an owner in the form the engine gives them.
func (s *scene) owner() string {
	id := fmt.Sprintf("%016x%016x", s.run, s.n.Add(1))
	return core.Owner{Host: "storetest", PID: 1, Instance: 1, Start: time.Now(), ID: id}.String()
}

func (s *scene) request(key string, ttl time.Duration) core.Request {
	return core.Request{Owner: s.owner(), Claims: []core.Claim{core.Exclusive(key)}, TTL: ttl}
}

// acquire asks st in the way this check is about, and looks at the answer's
// form.
func (s *scene) acquire(ctx context.Context, st core.Store, req core.Request) (core.Grant, error) {
	s.Helper()
	if !s.begin {
		g, err := st.Acquire(ctx, req)
		s.wellFormed(req, g, err)
		return g, err
	}
	g, rec, err := s.asLedger(st).Begin(ctx, req)
	if rec != nil {
		s.Errorf("Begin gave a record of an execution that never finished: %+v", rec)
	}
	s.wellFormed(req, g, err)
	return g, err
}

func (s *scene) asLedger(st core.Store) core.Ledger {
	s.Helper()
	l, ok := st.(core.Ledger)
	if !ok {
		s.Fatalf("%T is no core.Ledger: implement it, or set Harness.NoLedger", st)
	}
	return l
}

func (s *scene) wellFormed(req core.Request, g core.Grant, err error) {
	s.Helper()
	switch {
	case err != nil:
	case g.Owner != req.Owner, g.TTL != req.TTL, !slices.Equal(g.Claims, req.Claims):
		s.Errorf("the grant is %+v, asked for was %+v", g, req)
	case g.Token == 0:
		s.Errorf("the grant has no token: %+v", g)
	case g.Since.After(time.Now()):
		s.Errorf("the grant is said to count from %v, which is yet to come", g.Since)
	}
}

// hold is a lease that a check took, and when.
type hold struct {
	core.Grant
	called, returned time.Time
}

// since is the moment that the engine would count the lease from.
func (h hold) since() time.Time {
	if h.Since.IsZero() {
		return h.called
	}
	return h.Since
}

// lock takes a key that is free.
func (s *scene) lock(st core.Store, key string, ttl time.Duration) hold {
	s.Helper()
	called := time.Now()
	g, err := s.acquire(s.ctx, st, s.request(key, ttl))
	if err != nil {
		s.Fatalf("Acquire of a free key: %v", err)
	}
	return hold{g, called, time.Now()}
}

// mustRelease ends a lease that is in force.
func (s *scene) mustRelease(st core.Store, g core.Grant) {
	s.Helper()
	if err := st.Release(s.ctx, g); err != nil {
		s.Fatalf("Release of a lease in force: %v", err)
	}
}

// mustRenew renews a lease that is in force.
func (s *scene) mustRenew(st core.Store, g core.Grant) {
	s.Helper()
	if err := s.renew(st, g); err != nil {
		s.Fatalf("Renew of a lease in force: %v", err)
	}
}

func (s *scene) renew(st core.Store, g core.Grant) error {
	s.Helper()
	errs := st.Renew(s.ctx, []core.Grant{g})
	if len(errs) != 1 {
		s.Fatalf("Renew of one grant returned %d errors", len(errs))
	}
	return errs[0]
}

// renewWithin renews with the bound that the engine sets: a third of the TTL,
// here of the short one.
func (s *scene) renewWithin(st core.Store, g core.Grant) []error {
	ctx, cancel := context.WithTimeout(s.ctx, s.TTL/3)
	defer cancel()
	return st.Renew(ctx, []core.Grant{g})
}

// held checks that key can't be had without waiting.
func (s *scene) held(st core.Store, key string) {
	s.Helper()
	_, err := s.acquire(s.ctx, st, s.request(key, s.TTL))
	s.isHeld(err, key)
}

func (s *scene) isHeld(err error, key string) {
	s.Helper()
	var held *core.HeldError
	switch {
	case err == nil:
		s.Fatalf("%q was granted to a second owner", key)
	case !errors.As(err, &held) || !errors.Is(err, core.ErrHeld):
		s.Fatalf("want a *core.HeldError, got %T: %v", err, err)
	case errors.Is(err, core.ErrUnavailable):
		s.Fatalf("contention looks like an outage: %v", err)
	case held.Key != key:
		s.Fatalf("the *core.HeldError is about %q, want %q", held.Key, key)
	}
}

func (s *scene) isUnavailable(err error) {
	s.Helper()
	var held *core.HeldError
	switch {
	case err == nil:
		s.Fatalf("success from a backend that does not answer")
	case errors.As(err, &held) || errors.Is(err, core.ErrHeld):
		s.Fatalf("an outage looks like contention: %v", err)
	case !errors.Is(err, core.ErrUnavailable):
		s.Fatalf("want an error that matches core.ErrUnavailable, got %T: %v", err, err)
	}
}

func (s *scene) isLost(err error) {
	s.Helper()
	if !errors.Is(err, core.ErrLeaseLost) {
		s.Fatalf("want an error that matches core.ErrLeaseLost, got %v", err)
	}
}

func (s *scene) isClosed(err error) {
	s.Helper()
	if !errors.Is(err, core.ErrClosed) {
		s.Fatalf("want an error that matches core.ErrClosed, got %v", err)
	}
}

// freed asks for key until it is granted, at most until deadline.
func (s *scene) freed(st core.Store, key string, deadline time.Time) hold {
	s.Helper()
	for {
		called := time.Now()
		g, err := s.acquire(s.ctx, st, s.request(key, long))
		if err == nil {
			return hold{g, called, time.Now()}
		}
		if called.After(deadline) {
			s.Fatalf("the key is not free in time: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// lasted checks the length of a term that began between two moments, by when
// the next one had the key.
func (s *scene) lasted(what string, term time.Duration, from, to, next time.Time) {
	s.Helper()
	if early := from.Add(term).Sub(next); early > s.Early {
		s.Errorf("%s ended %v too early", what, early)
	}
	if late := next.Sub(to.Add(term)); late > s.Late {
		s.Errorf("%s ended %v too late", what, late)
	}
}

// waiter is a request that waits in a goroutine.
type waiter struct {
	s      *scene
	req    core.Request
	cancel context.CancelFunc
	queued chan struct{} // closed when the store says that it has to wait
	told   atomic.Int64  // how often the store said so
	done   chan struct{} // closed when the rest is set
	grant  core.Grant
	rec    *core.Record
	err    error
	at     time.Time
}

// enqueue has a new owner wait for key, and returns once it is in line.
func (s *scene) enqueue(st core.Store, key string, ttl time.Duration) *waiter {
	s.Helper()
	return s.enqueueUntil(s.ctx, st, key, ttl)
}

func (s *scene) enqueueUntil(ctx context.Context, st core.Store, key string, ttl time.Duration) *waiter {
	s.Helper()
	return s.wait(ctx, s.request(key, ttl), func(ctx context.Context, req core.Request) (core.Grant, *core.Record, error) {
		g, err := s.acquire(ctx, st, req)
		return g, nil, err
	})
}

// wait sends req by ask, and returns once it is in line.
func (s *scene) wait(ctx context.Context, req core.Request, ask func(context.Context, core.Request) (core.Grant, *core.Record, error)) *waiter {
	s.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{s: s, req: req, cancel: cancel, queued: make(chan struct{}), done: make(chan struct{})}
	var once sync.Once
	w.req.Wait = true
	w.req.OnHeld = func(core.HeldError) {
		w.told.Add(1)
		once.Do(func() { close(w.queued) })
	}
	go func() {
		defer close(w.done)
		w.grant, w.rec, w.err = ask(ctx, w.req)
		w.at = time.Now()
	}()
	s.Cleanup(func() {
		cancel()
		w.await(s.Late)
	})
	select {
	case <-w.queued:
	case <-w.done:
		s.Fatalf("a request that has to wait was answered: %+v, %v", w.grant, w.err)
	case <-s.ctx.Done():
		s.Fatalf("OnHeld was not called for a request that has to wait")
	}
	return w
}

// await reports whether the wait ended within d.
func (w *waiter) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

// granted returns the grant that must come within d.
func (w *waiter) granted(d time.Duration) hold {
	w.s.Helper()
	if !w.await(d) {
		w.s.Fatalf("a waiter was not served within %v", d)
	}
	if w.err != nil {
		w.s.Fatalf("a waiter got an error: %v", w.err)
	}
	return hold{w.grant, w.at, w.at}
}

// refused returns the error that must come within d.
func (w *waiter) refused(d time.Duration) error {
	w.s.Helper()
	if !w.await(d) {
		w.s.Fatalf("a wait did not end within %v", d)
	}
	if w.err == nil {
		w.s.Fatalf("a wait that should end in an error was granted: %+v", w.grant)
	}
	return w.err
}

// waits checks that no answer has come.
func (w *waiter) waits() {
	w.s.Helper()
	select {
	case <-w.done:
		w.s.Fatalf("a waiter was answered out of turn: %+v, %v", w.grant, w.err)
	default:
	}
}

// silence is one way to keep the backend from answering a store.
type silence struct {
	how        string
	begin, end func(core.Store)
}

// silences lists the ways this harness has.
func (s *scene) silences() []silence {
	var all []silence
	if s.Pause != nil && s.Resume != nil {
		all = append(all, silence{
			"paused",
			func(core.Store) { s.Pause(s.TB) },
			func(core.Store) { s.Resume(s.TB) },
		})
	}
	if s.Cut != nil && s.Heal != nil {
		all = append(all, silence{
			"cut off",
			func(st core.Store) { s.Cut(s.TB, st) },
			func(st core.Store) { s.Heal(s.TB, st) },
		})
	}
	return all
}

// during acts while st hears nothing from the backend, and then waits until it
// does again.
func (s *scene) during(q silence, st core.Store, act func()) {
	s.Helper()
	s.Logf("the backend is %s", q.how)
	func() {
		q.begin(st)
		defer q.end(st) // also when act ends the test
		act()
	}()
	s.answers(st)
}

// answers waits until st reaches the backend again.
func (s *scene) answers(st core.Store) {
	s.Helper()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.Late)
		g, err := s.acquire(ctx, st, s.request(s.key(), s.TTL))
		cancel()
		if err == nil {
			_ = st.Release(s.ctx, g)
			return
		}
		if s.ctx.Err() != nil {
			s.Fatalf("the store does not recover: %v", err)
		}
		time.Sleep(settle)
	}
}
