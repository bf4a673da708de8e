package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// server is a store that has a name, and counts how often it was asked for it.
type server struct {
	*spy
	name  string
	err   error
	asked int
}

func (s *server) Describe() driver.Description {
	d := s.spy.Describe()
	d.Identity = s.identity
	return d
}

func (s *server) identity(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.name, s.err
}

func (s *server) now(name string, err error) {
	s.change(func() { s.name, s.err = name, err })
}

// renewals are the batches so far.
func (s *server) renewals() [][]driver.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// asks is how often it is asked in so many seconds.
func (s *server) asks(seconds int) int {
	s.mu.Lock()
	before := s.asked
	s.mu.Unlock()
	time.Sleep(time.Duration(seconds) * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked - before
}

// A server that has taken another's place may not know the leases: they are renewed at
// once, and those that it does not know are lost then, long before a renewal was due.
func TestAnotherServerIsAskedForAllLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{spy: newSpy(), name: "first"}
		eng := newEngine(t, s, core.WithTTL(time.Minute))
		var leases []*core.Lease
		for _, key := range []string{"known", "forgotten"} {
			l, err := eng.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		time.Sleep(1500 * time.Millisecond)
		for _, nothing := range []error{nil, errors.New("no answer")} {
			s.now("", nothing)
			time.Sleep(1500 * time.Millisecond)
		}
		s.now("first", nil)
		time.Sleep(1500 * time.Millisecond)
		if n := len(s.renewals()); n != 0 {
			t.Fatalf("%d renewals in %d s", n, 6)
		}
		s.change(func() {
			s.onRenew = func(_ context.Context, g driver.Grant) error {
				if g.Claims[0].Key == "forgotten" {
					return &core.LeaseLostError{Key: "forgotten", Reason: driver.LossTaken}
				}
				return nil
			}
		})
		s.now("second", nil)
		time.Sleep(1500 * time.Millisecond)
		if all := s.renewals(); len(all) != 1 || len(all[0]) != 2 {
			t.Errorf("renewals: %v", all)
		}
		if err := leases[0].Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantOnly(t, leases[1].Release(t.Context()), core.ErrLeaseLost)
	})
}

// The server is not known when it grants the first lease, as while a connection is being made. Another one
// may answer by then.
func TestAServerThatIsKnownLate(t *testing.T) {
	for _, nothing := range []error{nil, errors.New("no answer")} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{spy: newSpy(), err: nothing}
			eng := newEngine(t, s, core.WithTTL(time.Minute))
			l, err := eng.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
			s.now("second", nil)
			time.Sleep(4 * time.Second)
			if n := len(s.renewals()); n != 1 {
				t.Errorf("%d renewals", n)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// An engine without leases has nothing to lose, and asks nothing. What was known before is
// known afterwards: the server may have changed in between.
func TestIdentityIsAskedForOnlyWithLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{spy: newSpy(), name: "first"}
		eng := newEngine(t, s, core.WithTTL(time.Minute))
		if n := s.asks(10); n != 0 {
			t.Errorf("asked %d times without a lease", n)
		}
		hold := func(seconds int) int {
			l, err := eng.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release(t.Context())
			return s.asks(seconds)
		}
		if n := hold(10); n < 9 || n > 11 {
			t.Errorf("asked %d times in 10 s", n)
		}
		s.asks(2) // the last beats
		if n := s.asks(10); n != 0 {
			t.Errorf("asked %d times after the lease", n)
		}
		s.now("second", nil)
		hold(2)
		if n := len(s.renewals()); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
}
