package drivertest

import (
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// A machine may stop a test for seconds. What a test does with a lease that runs out may then come too late,
// which says nothing about the store. Such a test is tried again, with a longer TTL.

// repeatsAfter is after how long a store may have sent a request again because it had no answer.
const repeatsAfter = 40 * time.Millisecond

// inTime calls try with ttl, and with longer ones as long as it reports that the machine was too slow.
// Each attempt has to use keys of its own.
func (s *scene) inTime(ttl time.Duration, try func(ttl time.Duration) (tooLate bool)) {
	s.Helper()
	const attempts = 5
	for range attempts {
		ttl = s.ttls.Nearest(ttl)
		if !try(ttl) {
			return
		}
		s.Logf("this machine was too slow for a lease of %v", ttl)
		ttl *= 2
	}
	s.Fatalf("this machine, or the store, is too slow for a lease of %v", ttl/2)
}

// over reports whether a lease that was asked for, or renewed, at that time may have run out by now.
func (s *scene) over(since time.Time, ttl time.Duration) bool {
	return time.Since(since) >= ttl-s.Early
}

// lostBySlowness reports whether err is the loss of a lease that may have run out by now.
func (s *scene) lostBySlowness(err error, since time.Time, ttl time.Duration) bool {
	return errors.Is(err, driver.ErrLeaseLost) && s.over(since, ttl)
}

// runsOut calls act again and again while h has not run out. w, which waits for it, checks that it does so in time.
func (s *scene) runsOut(what string, h hold, w *waiter, act func()) {
	s.Helper()
	for end := h.returned.Add(s.TTL + 2*s.Late); !w.await(s.TTL/4) && time.Now().Before(end); {
		act()
	}
	next := w.granted(s.Late)
	s.lasted(what, s.TTL, h.called, h.returned, next.returned)
}

// timed calls act, which is about a lease that was asked for, or renewed, at since. It returns when that was, or
// whether the machine was too slow.
func (s *scene) timed(since time.Time, ttl time.Duration, act func() error) (called, returned time.Time, tooLate bool) {
	s.Helper()
	called = time.Now()
	err := act()
	returned = time.Now()
	tooLate = s.lostBySlowness(err, since, ttl)
	if err != nil && !tooLate {
		s.Fatalf("what is done to a lease in force fails: %v", err)
	}
	return called, returned, tooLate
}

// soon is how late an answer may be that is due after d. That is later than an answer should be: a test that
// was stopped meanwhile must not fail. It is still far less than leases last that must not run out.
func (s *scene) soon(d time.Duration) time.Duration { return d + 2*s.Late }

// keeps renews a lease of ttl for lasts, which is longer, and checks that w waits meanwhile; nil: nobody has to.
// It returns the time of the last renewal, or whether the machine was too slow.
func (s *scene) keeps(h hold, ttl, lasts time.Duration, w *waiter, renew func() error) (called, returned time.Time, tooLate bool) {
	s.Helper()
	called, returned = h.called, h.returned
	for end := returned.Add(lasts); time.Now().Before(end); {
		time.Sleep(ttl / 4)
		before, answered := called, w != nil && w.await(0)
		called = time.Now()
		err := renew()
		returned = time.Now()
		switch {
		case err == nil && !answered:
		case s.over(before, ttl):
			return called, returned, true
		case answered:
			w.waits() // fails
		default:
			s.Fatalf("Renew of a lease in force: %v", err)
		}
	}
	return called, returned, false
}
