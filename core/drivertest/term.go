package drivertest

import "time"

// lastsTTL: a waiter finds out when a holder that never releases has lost the key. That must
// not be before the holder itself counts it as lost.
func lastsTTL(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, s.TTL)
	next := s.follow(b, s.claim(key)).granted(s.TTL + 2*s.Late)
	s.lasted("the lease", s.TTL, h.called, h.returned, next.returned)
	s.lasted("the lease, as its holder counts,", s.TTL, h.since(), h.returned, next.returned)
}

// lastsTTLUnwatched: nobody waits here. A store that notices the end of a lease only because of
// its waiters fails.
func lastsTTLUnwatched(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, s.TTL)
	next := s.freed(b, key, h.returned.Add(s.TTL+s.Late))
	s.lasted("the lease", s.TTL, h.called, h.returned, next.returned)
}

// lastsTTLAfterWait waits for longer than the lease that it asks for. A store that counts the
// lease from the beginning of the wait gives it nothing. A store may give a shorter first term.
func lastsTTLAfterWait(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		key := s.key()
		first := s.lock(a, key, long)
		w := s.wait(s.ctx, b, s.request(key, ttl), plain(b, s.acquireOnly))
		time.Sleep(ttl + s.Early)
		released := time.Now()
		s.mustRelease(first)
		h := w.granted(s.Late)
		if h.Since.IsZero() {
			s.Fatal("after a wait, the grant must say since when it counts")
		}
		term := ttl
		if h.Term > 0 {
			term = h.Term
		}
		if !h.Since.Add(term).After(h.returned) {
			if h.returned.Sub(released) >= term {
				return true
			}
			s.Fatalf("the lease counts from %v before it was granted: it is over already", h.returned.Sub(h.Since))
		}
		next := s.follow(c, s.claim(key)).granted(ttl + 2*s.Late)
		s.lasted("the lease", term, released, h.returned, next.returned)
		s.lasted("the lease, as its holder counts,", term, h.Since, h.returned, next.returned)
		return false
	})
}

// countsFromBefore checks whether Since is near the call or near the return. A store that takes
// the time when the answer arrives makes its holder believe in a lease that the backend has
// ended. The majority of many attempts decides, because any of them may have been interrupted
// anywhere.
func countsFromBefore(s *scene) {
	const attempts = 21
	st := s.open()
	late := 0
	for range attempts {
		h := s.lock(st, s.key(), long)
		if round := h.returned.Sub(h.called); h.returned.Sub(h.since()) < round/10 {
			late++
		}
		s.mustRelease(h)
	}
	if late > attempts/2 {
		s.Errorf("%d of %d grants count from when the answer came", late, attempts)
	}
}
