package drivertest

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// servedInOrder queues requests of several processes in a known order. Between each release and
// the next grant, a request that does not wait tries to slip in. If it could, waiters would
// starve while others come and go.
func servedInOrder(s *scene) {
	stores := []driver.Store{s.open(), s.open(), s.open()}
	key := s.key()
	h := s.lock(stores[0], key, long)
	var line []*waiter
	for i := range 9 {
		line = append(line, s.enqueue(stores[i%3], key, long))
	}
	tokens := []uint64{h.Token}
	for i, w := range line {
		for _, other := range line[i:] {
			other.waits()
		}
		s.mustRelease(h)
		s.held(stores[0], key)
		h = w.granted(s.Late)
		tokens = append(tokens, h.Token)
	}
	s.rising(tokens)
}

// toldBeforeTheEnd counts how often OnHeld is called after the request has ended.
func toldBeforeTheEnd(s *scene) {
	a, b := s.open(), s.open()
	for _, tc := range []struct {
		how string
		end func(hold, *waiter)
	}{
		{"was granted", func(h hold, w *waiter) { s.mustRelease(h); w.granted(s.Late) }},
		{"was given up", func(_ hold, w *waiter) { w.cancel(); _ = w.refused(s.Late) }},
	} {
		key := s.key()
		h := s.lock(a, key, long)
		w := s.enqueue(b, key, long)
		tc.end(h, w)
		told := w.told.Load()
		time.Sleep(s.TTL / 2)
		if after := w.told.Load() - told; after > 0 {
			s.Errorf("OnHeld was called %d times after the request %s", after, tc.how)
		}
	}
}

// servedInOrderAfterExpiry: while a holder that never releases loses the key, others ask for it
// all the time without waiting.
func servedInOrderAfterExpiry(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	var key string
	var line []*waiter
	var ends time.Time
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		key, line = s.key(), nil
		h := s.lock(a, key, ttl)
		for _, st := range []driver.Store{b, c, a, b, c} {
			line = append(line, s.follow(st, s.claim(key)))
		}
		ends = h.returned.Add(ttl)
		return s.over(h.called, ttl)
	})
	defer s.meanwhile(6, func(i int) {
		time.Sleep(time.Duration(i) * time.Millisecond) // otherwise all ask at once
		if _, err := s.acquire(s.ctx, []driver.Store{a, b, c}[i%3], s.request(key, s.TTL)); err == nil {
			s.Errorf("a request that does not wait overtook those who do")
		}
	})()
	line[0].await(time.Until(ends))
	for i, w := range line {
		h := w.granted(s.Late)
		for _, other := range line[i+1:] {
			other.waits()
		}
		if i < len(line)-1 { // behind the last waiter there is nobody to overtake
			s.mustRelease(h)
		}
	}
}

// skipsGivenUp: waiters at the head, in the middle and at the end of the queue give up.
func skipsGivenUp(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	gone := []*waiter{s.enqueue(a, key, long), s.enqueue(b, key, long)}
	second := s.enqueue(c, key, long)
	gone = append(gone, s.enqueue(b, key, long))
	third := s.enqueue(b, key, long)
	for _, w := range gone {
		w.cancel()
		s.isHeld(w.refused(s.Late), key)
	}
	s.mustRelease(h)
	h = second.granted(s.Late)
	third.waits()
	s.mustRelease(h)
	third.granted(s.Late)
}

// skipsClosed closes a store that waits.
func skipsClosed(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	gone := s.enqueue(b, key, long)
	next := s.enqueue(c, key, long)
	if err := b.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	_ = gone.refused(s.Late) // C1 tests its error
	s.mustRelease(h)
	next.granted(s.Late)
}

// skipsDead kills the first waiter. The others may have to wait for the end of its lease, if it
// was given one.
func skipsDead(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	s.enqueue(b, key, s.TTL)
	next := s.enqueue(c, key, long)
	s.Cut(s.TB, b)
	defer s.Heal(s.TB, b)
	s.mustRelease(h)
	next.granted(s.TTL + s.Late)
}

// waitEndsHeld: neither a caller's cancel nor its deadline is an outage, and the engine has to
// learn who was in the way.
func waitEndsHeld(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.lock(a, key, long)
	cancelled := s.enqueue(b, key, long)
	cancelled.cancel()
	s.isHeld(cancelled.refused(s.Late), key)
	s.inTime(s.TTL, func(wait time.Duration) (tooLate bool) {
		ctx, cancel := context.WithTimeout(s.ctx, wait)
		defer cancel()
		late := s.enqueueUntil(ctx, b, key, long)
		err := late.refused(wait + s.Late)
		if late.told.Load() == 0 {
			return true
		}
		s.isHeld(err, key)
		return false
	})
}

// waitEndsUnavailable: the backend falls silent during a wait.
func waitEndsUnavailable(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		key := s.key()
		s.lock(a, key, long)
		term := 2*s.TTL + s.Late // a busy machine needs time until the backend is silent
		ctx, cancel := context.WithTimeout(s.ctx, term)
		defer cancel()
		w := s.enqueueUntil(ctx, b, key, long)
		s.during(q, b, func() { s.isUnavailable(w.refused(term + s.Late)) })
	}
}
