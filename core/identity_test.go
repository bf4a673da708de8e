package core_test

import (
	"context"
	"errors"
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
	d.Identity = func(context.Context) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		return s.name, s.err
	}
	return d
}

// now changes the server's name, and returns how often it is asked in so many seconds.
func (s *server) now(name string, err error, seconds int) int {
	s.change(func() { s.name, s.err, s.asked = name, err, 0 })
	time.Sleep(time.Duration(seconds)*time.Second + time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// A server that has taken another's place may not know the leases: they are renewed at
// once, and those that it does not know are lost then, long before a renewal was due.
func TestAnotherServerIsAskedForAllLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{spy: newSpy(), name: "first"}
		eng := newEngine(t, s, core.WithTTL(time.Minute))
		known, forgotten := mustAcquire(t, eng, "known"), mustAcquire(t, eng, "forgotten")
		s.now("first", nil, 2)
		s.now("", nil, 2) // which is no other name
		s.now("", errors.New("no answer"), 2)
		s.now("first", nil, 2)
		if n := s.renewals(); n != 0 {
			t.Fatalf("%d renewals of leases that the server knows", n)
		}
		s.change(func() {
			s.onRenew = func(_ context.Context, g driver.Grant) error {
				if g.Claims[0].Key == "forgotten" {
					return &core.LeaseLostError{Key: "forgotten", Reason: driver.LossTaken}
				}
				return nil
			}
		})
		s.now("second", nil, 2)
		if n := s.renewals(); n != 1 {
			t.Errorf("%d batches of renewals", n)
		}
		mustRelease(t, known)
		wantOnly(t, forgotten.Release(bg), core.ErrLeaseLost)
	})
}

// An engine without leases has nothing to lose, and asks nothing. What was known before is
// known afterwards: the server may have changed in between.
func TestIdentityIsAskedForOnlyWithLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{spy: newSpy(), err: errors.New("no answer")} // as while a connection is being made
		eng := newEngine(t, s, core.WithTTL(time.Minute))
		if n := s.now("first", nil, 10); n != 0 {
			t.Errorf("asked %d times without a lease", n)
		}
		s.now("", errors.New("no answer"), 0)
		l := mustAcquire(t, eng, "k")
		time.Sleep(500 * time.Millisecond)
		s.now("first", nil, 4) // another server may answer than the one that granted the lease
		if n := s.renewals(); n != 1 {
			t.Errorf("%d renewals for a server that is known late", n)
		}
		if n := s.now("first", nil, 10); n < 9 || n > 11 {
			t.Errorf("asked %d times in 10 s", n)
		}
		mustRelease(t, l)
		s.now("first", nil, 2) // the last beats
		if n := s.now("first", nil, 10); n != 0 {
			t.Errorf("asked %d times after the lease", n)
		}
		s.now("second", nil, 0)
		l = mustAcquire(t, eng, "k")
		time.Sleep(2 * time.Second)
		mustRelease(t, l)
		if n := s.renewals(); n != 2 {
			t.Errorf("%d renewals", n)
		}
	})
}
