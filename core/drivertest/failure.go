package drivertest

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// leavesNothing looks for what refused requests and ended waits left in line.
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

// leavesNothingInRace releases the key at the moment the only waiter gives up:
// it gets the grant, or nobody has the key.
func leavesNothingInRace(s *scene) {
	a, b := s.open(), s.open()
	for range 20 {
		key := s.key()
		h := s.lock(a, key, long)
		w := s.enqueue(b, key, s.TTL)
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

// leavesNothingInOutage: the request may have arrived and its answer not.
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
		ended := time.Now() // a paused backend reads what it was sent only now
		s.freed(a, key, ended.Add(s.TTL+s.Late))
	}
}

// leavesOnPanic: who is next would else wait for somebody who is not there, be it
// in line or, where the holder was quicker, with the key.
func leavesOnPanic(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	for _, granted := range []bool{false, true} {
		key := s.key()
		h := s.lock(a, key, long)
		s.panics(b, s.request(key, long), func() {
			if granted {
				s.mustRelease(h)
			}
		})
		if !granted {
			next := s.enqueue(c, key, long)
			s.mustRelease(h)
			s.mustRelease(next.granted(s.Late))
		}
		s.freed(a, key, time.Now().Add(s.Late))
	}
}

// panics sends a request that has to wait, and whose OnHeld panics after before.
func (s *scene) panics(st driver.Store, req driver.Request, before func()) {
	s.Helper()
	const thrown = "OnHeld panics"
	req.Wait = true
	req.OnHeld = func(driver.HeldError) {
		before()
		panic(thrown)
	}
	defer func() {
		if got := recover(); got != thrown {
			s.Errorf("OnHeld's panic is %v to the caller", got)
		}
	}()
	g, err := s.acquire(s.ctx, st, req)
	s.Errorf("a request whose OnHeld panics got %+v, %v", g, err)
}

// outage asks for a key that is free, for one that is held and for one that is
// worth a wait.
func outage(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		free, held := s.key(), s.key()
		s.lock(a, held, long)
		s.held(b, held) // b knows
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
					if over := time.Since(called) - s.TTL; over > s.Late {
						s.Errorf("the error came %v after the context's end", over)
					}
				}
			}
		})
	}
}
