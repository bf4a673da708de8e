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

// wantSuspended fails unless the lease was lost because the machine had slept.
func wantSuspended(t *testing.T, l *core.Lease) {
	t.Helper()
	check(t, reason(l) == driver.LossSuspended, "cause %v", context.Cause(l.Context()))
	wantOnly(t, l.Release(bg), core.ErrLeaseLost)
}

// A suspended machine: the wall clock ran ahead of the monotonic one, on which
// the timers and the deadline stood still. Each lease has its own time: a longer one on the same key, which is looked at
// first, is still good.
func TestSuspendCountsAsTime(t *testing.T) {
	const back = -time.Hour
	for name, tc := range map[string]struct {
		jumps []time.Duration // of the wall clock, in all, 5 s apart
		lost  bool
	}{
		"slept past the lease":           {[]time.Duration{time.Minute}, true},
		"a short sleep":                  {[]time.Duration{15 * time.Second}, false},
		"wall clock set back":            {[]time.Duration{back}, false},
		"set back, which hides no sleep": {[]time.Duration{back, back, back + time.Minute}, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			wall := &core.Wall{}
			eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
			l := mustAcquire(t, eng, "k", core.WithShared())
			long := mustAcquire(t, eng, "k", core.WithShared(), core.WithTTL(10*time.Hour), core.WithMaxHold(8*time.Second))
			defer func() { _ = long.Release(bg) }()
			for _, jump := range tc.jumps {
				time.Sleep(5 * time.Second)
				wall.Jump(jump)
			}
			time.Sleep(1100 * time.Millisecond)
			check(t, long.Err() == nil || len(tc.jumps) > 1, "the longer one: %v", long.Err())
			if tc.lost {
				wantSuspended(t, l)
				return
			}
			time.Sleep(time.Minute)
			mustRelease(t, l)
		})
	}
}

// Err and Release look at the clocks themselves: right after waking, before
// the watchdog has run.
func TestErrDoesNotWaitForTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second))
		l, other := mustAcquire(t, eng, "k"), mustAcquire(t, eng, "other")
		wall.Jump(time.Minute)
		wantOnly(t, l.Err(), core.ErrLeaseLost)
		wantOnly(t, other.Release(bg), core.ErrLeaseLost)
		wantSuspended(t, l)
	})
}

// A machine that slept between a renewal and its answer: the backend's time went on, and the lease is over although
// the answer says otherwise. (For a grant: TestAnswerAfterTheLeaseIsOver.)
func TestSuspendedDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		spy, eng := newSpied(t, wall, core.WithTTL(30*time.Second))
		spy.onRenew = func(context.Context, driver.Grant) error {
			time.Sleep(time.Millisecond)
			wall.Jump(2 * time.Minute)
			return nil
		}
		l := mustAcquire(t, eng, "k")
		time.Sleep(11 * time.Second)
		wantSuspended(t, l)
	})
}

// A caller that slept while it waited, and was granted after that, is fine.
func TestSuspendedBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(30*time.Second), core.WithMaxHold(core.Forever))
		holder := mustAcquire(t, eng, "k")
		time.AfterFunc(time.Second, func() { wall.Jump(time.Minute) })
		next := mustAcquire(t, eng, "k", core.WithMaxWait(time.Minute))
		time.Sleep(time.Minute)
		mustRelease(t, next)
		wantSuspended(t, holder)
	})
}

// The clocks are looked at once a second from the first lease on, however long the
// watchdog had nothing to do, and however late its renewal is due.
func TestSuspensionIsNoticedAfterAnIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &core.Wall{}
		eng := newEngine(t, newSpy(), wall, core.WithTTL(24*time.Hour), core.WithMaxHold(core.Forever))
		mustRelease(t, mustAcquire(t, eng, "k"))
		time.Sleep(10 * time.Second)
		l := mustAcquire(t, eng, "k")
		wall.Jump(25 * time.Hour)
		time.Sleep(time.Second + time.Millisecond)
		wantSuspended(t, l)
	})
}

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
		wantEqual(t, "batches of renewals", s.renewals(), 1)
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
		wantEqual(t, "questions without a lease", s.now("first", nil, 10), 0)
		s.now("", errors.New("no answer"), 0)
		l := mustAcquire(t, eng, "k")
		time.Sleep(500 * time.Millisecond)
		s.now("first", nil, 4) // another server may answer than the one that granted the lease
		wantEqual(t, "renewals for a server that is known late", s.renewals(), 1)
		n := s.now("first", nil, 10)
		check(t, n >= 9 && n <= 11, "asked %d times in 10 s", n)
		mustRelease(t, l)
		s.now("first", nil, 2) // the last beats
		wantEqual(t, "questions after the lease", s.now("first", nil, 10), 0)
		s.now("second", nil, 0)
		l = mustAcquire(t, eng, "k")
		time.Sleep(2 * time.Second)
		mustRelease(t, l)
		wantEqual(t, "renewals", s.renewals(), 2)
	})
}
