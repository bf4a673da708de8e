package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// long is the TTL of leases that must not run out during a test. A store that admits waiters
// only when a lease runs out is then too late.
const long = time.Minute

// settle is how long a test watches for something that must not happen.
const settle = 20 * time.Millisecond

// scene is the environment of a check: the backend, and names that nobody else uses.
type scene struct {
	testing.TB
	Harness
	begin bool
	claim func(key string) driver.Claim // makes the claim that lock, enqueue and so on ask for
	// ctx ends when the test is certainly stuck.
	ctx context.Context
	run uint64 // random, because backends outlive a run of the tests
	n   atomic.Uint64
}

func newScene(t testing.TB, h Harness, c check) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second+20*(h.TTL+h.Late))
	t.Cleanup(cancel)
	s := &scene{TB: t, Harness: h, begin: c.begin, claim: c.claim, ctx: ctx, run: rand.Uint64()}
	if s.claim == nil {
		s.claim = driver.Exclusive
	}
	return s
}

// open opens a store, which stands for a process.
func (s *scene) open() driver.Store {
	s.Helper()
	st := s.New(s.TB)
	s.Cleanup(func() { _ = st.Close() }) // the check may have closed it
	return st
}

// brief reports whether a few of a kind are enough: in the short run, on a backend that takes its time.
func (s *scene) brief() bool { return (s.takesTime || s.OneByOne) && testing.Short() }

// many is n, or a third of it.
func (s *scene) many(n int) int {
	if s.brief() && n > 3 {
		n = (n + 2) / 3
	}
	return n
}

func (s *scene) key() string {
	return fmt.Sprintf("drivertest:%016x:%d", s.run, s.n.Add(1))
}

// owner makes an owner in the engine's format.
func (s *scene) owner() string {
	id := fmt.Sprintf("%016x%016x", s.run, s.n.Add(1))
	return driver.Owner{Host: "drivertest", PID: 1, Instance: 1, Start: time.Now(), ID: id}.String()
}

func (s *scene) request(key string, ttl time.Duration) driver.Request {
	return s.ask(ttl, s.claim(key))
}

// ask makes a request of a new owner for claims, which must be in key order.
// The TTL is the nearest that the store can keep.
func (s *scene) ask(ttl time.Duration, claims ...driver.Claim) driver.Request {
	req := driver.Request{Owner: s.owner(), Claims: claims, TTL: s.ttls.Nearest(ttl)}
	if len(claims) == 1 && claims[0].Mode == driver.ModeExclusive && !s.begin {
		req.HandOffs = someHandOffs // as the engine asks for
	}
	return req
}

const someHandOffs = 20

// acquire asks st in the way that this check tests, and checks the form of the answer. Like the
// engine, it renews a lease that has a short first term.
func (s *scene) acquire(ctx context.Context, st driver.Store, req driver.Request) (driver.Grant, error) {
	s.Helper()
	g, err := s.acquireOnly(ctx, st, req)
	if err != nil || g.Term == 0 {
		return g, err
	}
	sent := time.Now()
	switch err := st.Renew(ctx, []driver.Grant{g})[0]; {
	case err == nil:
		g.Since, g.Term = sent, 0
	case errors.Is(err, driver.ErrLeaseLost) && time.Now().Before(g.Since.Add(g.Term-s.Early)):
		s.Errorf("a lease was lost in its first term: %v", err)
	}
	return g, nil
}

func (s *scene) acquireOnly(ctx context.Context, st driver.Store, req driver.Request) (driver.Grant, error) {
	s.Helper()
	if !s.begin {
		g, err := st.Acquire(ctx, req)
		s.wellFormed(req, g, err)
		return g, err
	}
	g, rec, err := st.Begin(ctx, req)
	if rec != nil {
		s.Errorf("Begin gave a record of an execution that never finished: %+v", rec)
	}
	s.wellFormed(req, g, err)
	return g, err
}

func (s *scene) wellFormed(req driver.Request, g driver.Grant, err error) {
	s.Helper()
	switch {
	case err != nil:
	case g.Owner != req.Owner, g.TTL != req.TTL, !slices.Equal(g.Claims, req.Claims):
		s.Errorf("the grant is %+v, asked for was %+v", g, req)
	case g.Token == 0:
		s.Errorf("the grant has no token: %+v", g)
	case g.HandOffs > req.HandOffs && req.Claims[0].Mode == driver.ModeExclusive: // a downgrade asks for none
		s.Errorf("%d tokens are reserved, and %d were wanted", g.HandOffs, req.HandOffs)
	case g.Since.After(time.Now()):
		s.Errorf("the grant is said to count from %v, which is yet to come", g.Since)
	case g.Term < 0, g.Term > g.TTL, g.Term > 0 && g.Since.IsZero():
		s.Errorf("the grant has a first term of %v since %v and a TTL of %v", g.Term, g.Since, g.TTL)
	}
}

// hold is a lease that a check took, with its store and the time.
type hold struct {
	driver.Grant
	st               driver.Store
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
func (s *scene) lock(st driver.Store, key string, ttl time.Duration) hold {
	s.Helper()
	return s.take(st, ttl, s.claim(key))
}

// take takes claims for which there is room.
func (s *scene) take(st driver.Store, ttl time.Duration, claims ...driver.Claim) hold {
	s.Helper()
	return s.takeBy(st, s.ask(ttl, claims...))
}

// takeBy is take by a request.
func (s *scene) takeBy(st driver.Store, req driver.Request) hold {
	s.Helper()
	called := time.Now()
	g, err := s.acquire(s.ctx, st, req)
	if err != nil {
		s.Fatalf("Acquire of what is free: %v", err)
	}
	return hold{g, st, called, time.Now()}
}

// freed asks for key until it is granted, until deadline at most.
func (s *scene) freed(st driver.Store, key string, deadline time.Time) hold {
	s.Helper()
	for {
		called := time.Now()
		g, err := s.acquire(s.ctx, st, s.request(key, long))
		if err == nil {
			return hold{g, st, called, time.Now()}
		}
		if called.After(deadline) {
			s.Fatalf("the key is not free in time: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// ends asks until something is over that began between from and to, and checks its length.
func (s *scene) ends(what string, term time.Duration, from, to time.Time, over func() bool) {
	s.Helper()
	for !over() {
		if time.Now().After(to.Add(term + s.soon(2*s.Late))) {
			s.Fatalf("%s stays", what)
		}
		time.Sleep(time.Millisecond)
	}
	s.lasted(what, term, from, to, time.Now())
}

// lasted checks the length of a term. It began between from and to, and next is when the next
// owner had the key.
func (s *scene) lasted(what string, term time.Duration, from, to, next time.Time) {
	s.Helper()
	if early := from.Add(term).Sub(next); early > s.Early {
		s.Errorf("%s ended %v too early", what, early)
	}
	if late := next.Sub(to.Add(term)); late > s.soon(s.Late) {
		s.Errorf("%s ended %v too late", what, late)
	}
}
