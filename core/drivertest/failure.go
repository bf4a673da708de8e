package drivertest

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// leavesNothing looks for what refused requests and ended waits may have left in the queue.
func leavesNothing(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	s.held(b, key)
	w := s.enqueue(b, key, long)
	w.cancel()
	_ = w.refused(s.Late)
	ctx, cancel := context.WithTimeout(s.ctx, s.TTL)
	defer cancel()
	_ = s.enqueueUntil(ctx, b, key, long).refused(s.TTL + s.Late)
	s.mustRelease(h)
	s.lock(c, key, long)
}

// leavesNothingInRace releases the key at the moment when the only waiter gives up. Either the
// waiter gets the grant, or nobody has the key.
func (s *scene) leavesNothingInRace(wanted func(key string) driver.Claim) {
	a, b := s.open(), s.open()
	for range 20 {
		key := s.key()
		h := s.lock(a, key, long)
		w := s.queue(b, s.TTL, wanted(key))
		go w.cancel()
		s.mustRelease(h)
		if !w.await(s.Late) {
			s.Fatal("a cancelled wait does not end")
		}
		if w.err == nil {
			s.mustRelease(w.granted(s.Late))
		}
		s.freed(a, key, time.Now().Add(s.TTL+s.Late))
	}
}

// leavesNothingInOutage: the request may have arrived although its answer did not.
func leavesNothingInOutage(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		key := s.key()
		s.during(q, b, func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.TTL/2)
			defer cancel()
			_, err := s.acquire(ctx, b, s.request(key, s.TTL))
			s.isUnavailable(err)
		})
		ended := time.Now() // a paused backend reads only now what it was sent
		s.freed(a, key, ended.Add(s.TTL+s.Late))
	}
}

// outage asks for a free key, for a held one, and for one that it would wait for.
func outage(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		free, held := s.key(), s.key()
		s.lock(a, held, long)
		s.held(b, held) // b knows that it is held
		s.during(q, b, func() {
			for _, wait := range []bool{false, true} {
				for _, key := range []string{free, held} {
					req := s.request(key, s.TTL)
					req.Wait = wait
					ctx, cancel := context.WithTimeout(s.ctx, s.TTL)
					called := time.Now()
					_, err := s.acquire(ctx, b, req)
					cancel()
					s.isUnavailable(err)
					if over := time.Since(called) - s.TTL; over > s.soon(s.Late) {
						s.Errorf("the error came %v after the context's end", over)
					}
				}
			}
		})
	}
}
