package drivertest

import (
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// setAgain asks twice as the same owner, behind a waiter.
func setAgain(s *scene) {
	a, b := s.open(), s.open()
	k := s.keys(2)
	req := s.ask(long, exclusives(k...)...)
	first := s.takeBy(a, req)
	w := s.enqueue(b, k[1], long)
	for _, wait := range []bool{false, true} {
		req.Wait = wait
		if again := s.takeBy(a, req); again.Token != first.Token {
			s.Fatalf("asked again, the holder of token %d got %d", first.Token, again.Token)
		}
	}
	s.mustRelease(first)
	w.granted(s.Late)
	s.lock(b, k[0], long)
}

// setRefusedAgain asks again with a shorter TTL, and with the last claim in another mode.
func setRefusedAgain(s *scene) {
	a, b := s.open(), s.open()
	k := s.keys(2)
	h := s.take(a, long, exclusives(k...)...)
	req := driver.Request{Owner: h.Owner, Claims: []driver.Claim{driver.Exclusive(k[0]), driver.Shared(k[1])}, TTL: s.TTL}
	_, err := s.acquire(s.ctx, a, req)
	if own := (*driver.DeadlockError)(nil); !errors.As(err, &own) || own.Key != k[1] {
		s.Fatalf("asked again for %q in another mode: want a DeadlockError, got %v", k[1], err)
	}
	s.lendable(b, h)
	s.mustRelease(h)
}

func setRenewed(s *scene) {
	a, b := s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		k := s.keys(3)
		h := s.take(a, ttl, exclusives(k...)...)
		if _, _, tooLate := s.keeps(h, ttl, 3*ttl/2, nil, func() error { return s.renew(a, h.Grant) }); tooLate {
			return true
		}
		h.TTL = s.ttls.Nearest(long)
		if _, _, tooLate := s.timed(h.called, ttl, func() error { return s.renew(a, h.Grant) }); tooLate {
			return true
		}
		for _, key := range k {
			s.held(b, key)
		}
		return false
	})
}

// half takes a set of two and renews only one claim, until the other one, lost, has ended and
// belongs to another owner. The renewals ask for so much time that a slow machine is never late with
// the next one.
func (s *scene) half(a, b driver.Store, lost int) (set hold, left string, other hold) {
	s.Helper()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		s.Helper()
		k := s.keys(2)
		set, left = s.take(a, ttl, exclusives(k...)...), k[1-lost]
		part := set.Grant
		part.Claims, part.TTL = part.Claims[1-lost:2-lost], s.ttls.Nearest(long)
		if err := s.renew(a, part); s.lostBySlowness(err, set.called, ttl) {
			return true
		}
		renew := func() {
			s.Helper()
			if err := s.renew(a, part); err != nil {
				s.Fatalf("Renew of a part of a set: %v", err)
			}
		}
		renew()
		w := s.follow(b, driver.Exclusive(k[lost]))
		for end := set.returned.Add(ttl + 2*s.Late); !w.await(ttl/4) && time.Now().Before(end); {
			renew()
		}
		other = w.granted(s.Late)
		renew()
		return false
	})
	return set, left, other
}

// partRenewed: the renewed part gets a full TTL, and the rest does not.
func partRenewed(s *scene) {
	a, b := s.open(), s.open()
	set, left, other := s.half(a, b, 1)
	s.lasted("the claim that was not renewed", set.TTL, set.called, set.returned, other.returned)
	s.held(b, left)
}

func brokenSetLost(s *scene) {
	a, b := s.open(), s.open()
	for lost := range 2 {
		set, _, other := s.half(a, b, lost)
		s.isLost(s.renew(a, set.Grant))
		s.mustRenew(other)
		s.mustRelease(other) // whether free or not, this claim is not the set's
		s.isLost(s.renew(a, set.Grant))
		s.lock(b, other.Claims[0].Key, long)
	}
}

func brokenSetReleased(s *scene) {
	a, b := s.open(), s.open()
	for lost := range 2 {
		set, left, other := s.half(a, b, lost)
		s.isLostOnRelease(a, set.Grant)
		s.mustRenew(other)
		s.lock(b, left, long)
	}
}
