package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// rising checks tokens in the order of their grants.
func (s *scene) rising(tokens []uint64) {
	s.Helper()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			s.Errorf("token %d of grant %d is not greater than %d of the one before", tokens[i], i, tokens[i-1])
		}
	}
}

// tokensRise from process to process, after a release and after the death of the holder.
func tokensRise(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	var tokens []uint64
	for range 5 {
		for _, st := range []driver.Store{a, b} {
			h := s.lock(st, key, long)
			tokens = append(tokens, h.Token)
			s.mustRelease(h)
		}
	}
	h := s.lock(a, key, s.TTL) // and again after the holder has died
	tokens = append(tokens, h.Token)
	tokens = append(tokens, s.freed(b, key, h.returned.Add(s.TTL+s.Late)).Token)
	s.rising(tokens)
}

// tokensGoWithClock tolerates a backend whose clock is a little wrong.
func tokensGoWithClock(s *scene) {
	h := s.lock(s.open(), s.key(), long)
	if least := h.called.Add(-time.Minute).UnixMicro(); h.Token < uint64(least) {
		s.Errorf("token %d is behind the clock, %d µs: after a loss of the data it would fall behind earlier ones", h.Token, least)
	}
}

// tokensRiseAfterLoss uses keys that were free and held when the backend forgot them. A holder
// from before must not get past a fence.
func tokensRiseAfterLoss(s *scene) {
	a, b := s.open(), s.open()
	released, held := s.key(), s.key()
	for range 50 { // so many that a counter that began again would still be behind
		s.mustRelease(s.lock(a, released, long))
		s.mustRelease(s.lock(b, held, long))
	}
	one, two := s.lock(a, released, long), s.lock(a, held, long)
	s.mustRelease(one)
	s.Restart(s.TB)
	for _, st := range []driver.Store{a, b} {
		s.answers(st)
	}
	s.rising([]uint64{one.Token, s.lock(b, released, long).Token})
	s.rising([]uint64{two.Token, s.lock(b, held, long).Token})
	s.isLost(s.renew(a, two.Grant))
}
