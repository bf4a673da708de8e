package drivertest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
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

// readersAndWriters lets readers and writers take turns, and counts who is inside.
func readersAndWriters(s *scene) {
	key := s.key()
	var readers, writers atomic.Int64
	var mu sync.Mutex
	var tokens []uint64 // the writers' tokens, in the order of the grants
	read := func(driver.Grant) {
		readers.Add(1)
		if n := writers.Load(); n != 0 {
			s.Errorf("%d writers are in with a reader", n)
		}
		time.Sleep(time.Millisecond)
		readers.Add(-1)
	}
	write := func(g driver.Grant) {
		if n, m := writers.Add(1), readers.Load(); n != 1 || m != 0 {
			s.Errorf("%d writers and %d readers are in", n, m)
		}
		mu.Lock()
		tokens = append(tokens, g.Token)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		writers.Add(-1)
	}
	s.crowd(3, 4, 8, func(st driver.Store, i int) bool {
		if i%3 == 0 {
			return s.within(st, write, driver.Exclusive(key))
		}
		return s.within(st, read, driver.Shared(key))
	})
	s.rising(tokens)
}

// readersAndWritersDying has holders that never release. It compares the times in which each
// was entitled to believe in its lease.
func readersAndWritersDying(s *scene) {
	type tenure struct {
		driver.Grant
		from, until time.Time
	}
	key := s.key()
	var mu sync.Mutex
	var history []tenure
	s.crowd(4, 1, 3, func(st driver.Store, i int) bool {
		claim := driver.Shared(key)
		if i%2 == 0 {
			claim = driver.Exclusive(key)
		}
		req := s.ask(s.TTL, claim)
		req.Wait = true
		called := time.Now()
		g, err := s.acquire(s.ctx, st, req)
		if err != nil {
			s.Errorf("Acquire: %v", err)
			return false
		}
		h := hold{g, st, called, time.Now()}
		t := tenure{g, h.returned, h.since().Add(s.TTL)}
		if i%4 < 2 {
			if now := time.Now(); now.Before(t.until) {
				t.until = now
			}
			if err := st.Release(s.ctx, g); err != nil && !s.lostBySlowness(err, h.since(), s.TTL) {
				s.Errorf("Release: %v", err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, t)
		return true
	})
	slices.SortFunc(history, func(a, b tenure) int { return cmp.Compare(a.Token, b.Token) })
	for i, one := range history {
		for _, next := range history[i+1:] {
			if one.Claims[0].Mode == driver.ModeShared && next.Claims[0].Mode == driver.ModeShared {
				continue
			}
			// A grant was made before it returned. So if these times overlap, the leases
			// overlapped.
			if overlap := one.until.Sub(next.from); overlap > s.Early {
				s.Errorf("%s and %s leases overlap by %v, or their tokens fell: %d and %d",
					one.Claims[0].Mode, next.Claims[0].Mode, overlap, one.Token, next.Token)
			}
		}
	}
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
