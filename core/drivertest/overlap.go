package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// crowd runs goroutines of several processes, each of which acts in every round.
func (s *scene) crowd(processes, goroutines, rounds int, act func(st driver.Store, i int) bool) {
	s.Helper()
	rounds = s.many(rounds)
	var all sync.WaitGroup
	for p := range processes {
		st := s.open()
		for g := range goroutines {
			all.Go(func() {
				for i := 0; i < rounds && act(st, p+g+i); i++ {
				}
			})
		}
	}
	all.Wait()
}

// meanwhile has goroutines act again and again, with a pause, until stop is called.
func (s *scene) meanwhile(goroutines int, act func(i int)) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for ctx.Err() == nil {
				act(i)
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// within waits for claims, calls act while it holds them, and gives them back.
func (s *scene) within(st driver.Store, act func(driver.Grant), claims ...driver.Claim) bool {
	req := s.ask(long, claims...)
	req.Wait = true
	g, err := s.acquire(s.ctx, st, req)
	if err != nil {
		s.Errorf("Acquire: %v", err)
		return false
	}
	act(g)
	if err := st.Release(s.ctx, g); err != nil {
		s.Errorf("Release: %v", err)
	}
	return !s.Failed()
}

// stream is a set of callers that want the same claim all the time.
type stream struct {
	mu     sync.Mutex
	grants []passage
}

// passage is one grant, with the time of its request.
type passage struct {
	called time.Time
	token  uint64
}

// stream starts two goroutines per process that take the claim again and again, until the
// returned function is called.
func (s *scene) stream(claim driver.Claim, stores ...driver.Store) (*stream, func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	st := &stream{}
	var all sync.WaitGroup
	for i := range 2 * len(stores) {
		store := stores[i%len(stores)]
		all.Go(func() {
			for ctx.Err() == nil {
				req := s.ask(long, claim)
				req.Wait = true
				called := time.Now()
				g, err := s.acquire(ctx, store, req)
				if err != nil && ctx.Err() == nil {
					s.Errorf("Acquire: %v", err)
					return
				}
				if err != nil {
					return
				}
				st.mu.Lock()
				st.grants = append(st.grants, passage{called, g.Token})
				st.mu.Unlock()
				time.Sleep(time.Millisecond)
				if err := store.Release(s.ctx, g); err != nil {
					s.Errorf("Release: %v", err)
				}
			}
		})
	}
	return st, sync.OnceFunc(func() { cancel(); all.Wait() })
}

// last is the greatest token that was granted.
func (st *stream) last() (last uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, p := range st.grants {
		last = max(last, p.token)
	}
	return last
}

// streamOfReaders: readers overlap, so there is never a moment without one, unless the writer
// makes them wait.
func streamOfReaders(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Shared(key))
	readers, stop := s.stream(driver.Shared(key), a, b)
	defer stop()
	time.Sleep(settle)
	writer := s.queue(c, long, driver.Exclusive(key))
	queued := time.Now()
	time.Sleep(settle)
	s.mustRelease(h)
	w := writer.granted(s.Late)
	s.mustRelease(w)
	time.Sleep(settle)
	stop()
	for _, r := range readers.grants {
		if r.called.After(queued) && r.token < w.Token {
			s.Errorf("a reader that came %v after the writer overtook it", r.called.Sub(queued))
		}
	}
}

// streamOfWriters: the line of writers is never empty. A reader waits for the writer that has
// the key when it comes, and for no other.
func streamOfWriters(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	writers, stop := s.stream(driver.Exclusive(key), a, b)
	defer stop()
	for range 8 {
		time.Sleep(settle)
		var before uint64
		req := s.ask(long, driver.Shared(key))
		req.Wait = true
		// By then all writers, except the one inside, have reported their token.
		var once sync.Once
		req.OnHeld = func(driver.HeldError) { once.Do(func() { before = writers.last() }) }
		called := time.Now()
		g, err := s.acquire(s.ctx, c, req)
		if err != nil {
			s.Fatalf("Acquire: %v", err)
		}
		if took := time.Since(called); took > s.soon(s.Late) {
			s.Errorf("the reader waited for %v", took)
		}
		s.mustRelease(hold{Grant: g, st: c})
		time.Sleep(settle)
		if before == 0 {
			continue // it met no writer
		}
		overtakers := 0
		writers.mu.Lock()
		for _, w := range writers.grants {
			if before < w.token && w.token < g.Token {
				overtakers++
			}
		}
		writers.mu.Unlock()
		if overtakers > 1 {
			s.Errorf("%d writers entered before a reader that waited", overtakers)
		}
	}
}
