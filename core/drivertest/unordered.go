package drivertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// allServed: each of several waiters is granted the key while the holders release it.
func allServed(s *scene) {
	stores := []driver.Store{s.open(), s.open(), s.open()}
	key := s.key()
	h := s.lock(stores[0], key, long)
	var waiters []*waiter
	for i := range 9 {
		waiters = append(waiters, s.enqueue(stores[i%3], key, long))
	}
	tokens := []uint64{h.Token}
	for len(waiters) > 0 {
		s.mustRelease(h)
		i := s.anyOf(waiters)
		h = waiters[i].granted(s.Late)
		waiters = slices.Delete(waiters, i, i+1)
		for _, other := range waiters {
			other.waits()
		}
		tokens = append(tokens, h.Token)
	}
	s.rising(tokens)
}

// anyOf returns a waiter that is answered.
func (s *scene) anyOf(waiters []*waiter) int {
	s.Helper()
	for s.ctx.Err() == nil {
		if i := slices.IndexFunc(waiters, func(w *waiter) bool { return w.await(time.Millisecond) }); i >= 0 {
			return i
		}
	}
	s.Fatal("none of the waiters was served")
	return 0
}

// nobodyStarves: five callers want the key all the time, and hand it over 200 times. A
// caller that has had it asks again only after another one has had it. Each must get it several times.
func nobodyStarves(s *scene) {
	const callers, handOvers, fewest = 5, 200, 5
	stores := []driver.Store{s.open(), s.open(), s.open()}
	key := s.key()
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	turns := turns{next: make(chan struct{})}
	var all sync.WaitGroup
	for i := range callers {
		st := stores[i%len(stores)]
		all.Go(func() {
			for ctx.Err() == nil {
				req := s.request(key, long)
				req.Wait = true
				g, err := s.acquire(ctx, st, req)
				if err != nil {
					return // the end, or other checks say more
				}
				n, another := turns.take(i)
				if n == handOvers {
					stop()
				}
				time.Sleep(settle / 2) // so that all others ask again, also the one before
				if err := st.Release(s.ctx, g); err != nil {
					s.Errorf("a release: %v", err)
				}
				select {
				case <-another:
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
	for i := range callers {
		if n := turns.of[i]; n < fewest {
			s.Errorf("of %d turns caller %d had %d: %v", turns.n, i, n, turns.of)
		}
	}
}

// turns counts who had a key how often.
type turns struct {
	mu   sync.Mutex
	n    int
	of   [5]int
	next chan struct{} // closed by the next turn
}

// take returns the turn's number and a channel that the next turn closes.
func (t *turns) take(caller int) (n int, next <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.next)
	t.next = make(chan struct{})
	t.n++
	t.of[caller]++
	return t.n, t.next
}
