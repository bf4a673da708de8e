package drivertest

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// oneAtATime lets goroutines of several processes take turns, and counts who is inside: only
// the lease keeps them apart.
func oneAtATime(s *scene) {
	const processes, goroutines = 3, 4
	rounds := s.many(8)
	key := s.key()
	var inside atomic.Int64
	var mu sync.Mutex
	var tokens []uint64 // in the order of the grants
	turn := func(st driver.Store) bool {
		req := s.request(key, long)
		req.Wait = true
		g, err := s.acquire(s.ctx, st, req)
		if err != nil {
			s.Errorf("Acquire: %v", err)
			return false
		}
		if n := inside.Add(1); n != 1 {
			s.Errorf("%d owners have the key", n)
		}
		mu.Lock()
		tokens = append(tokens, g.Token)
		mu.Unlock()
		runtime.Gosched()
		inside.Add(-1)
		if err := st.Release(s.ctx, g); err != nil {
			s.Errorf("Release: %v", err)
		}
		return !s.Failed()
	}
	var all sync.WaitGroup
	for range processes {
		st := s.open()
		for range goroutines {
			all.Go(func() {
				for i := 0; i < rounds && turn(st); i++ {
				}
			})
		}
	}
	all.Wait()
	s.rising(tokens)
}

// oneAtATimeDying is oneAtATime with holders that never release. It compares the times in which
// each was entitled to believe in its lease.
func oneAtATimeDying(s *scene) {
	const processes, rounds = 4, 3
	type tenure struct {
		hold
		until time.Time
	}
	key := s.key()
	var mu sync.Mutex
	var history []tenure
	var all sync.WaitGroup
	for p := range processes {
		st := s.open()
		all.Go(func() {
			for round := range rounds {
				req := s.request(key, s.TTL)
				req.Wait = true
				called := time.Now()
				g, err := s.acquire(s.ctx, st, req)
				if err != nil {
					s.Errorf("Acquire: %v", err)
					return
				}
				h := tenure{hold: hold{g, st, called, time.Now()}}
				h.until = h.since().Add(s.TTL)
				if (p+round)%2 == 0 {
					if now := time.Now(); now.Before(h.until) {
						h.until = now
					}
					if err := st.Release(s.ctx, g); err != nil && !s.lostBySlowness(err, h.since(), s.TTL) {
						s.Errorf("Release: %v", err)
					}
				}
				mu.Lock()
				history = append(history, h)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	// Sort by token, because two grants may return at the same moment.
	slices.SortFunc(history, func(a, b tenure) int { return cmp.Compare(a.Token, b.Token) })
	for i := 1; i < len(history); i++ {
		one, next := history[i-1], history[i]
		if next.Token == one.Token {
			s.Errorf("two grants have token %d", one.Token)
		}
		// A grant was made before it returned. So if these times overlap, the leases
		// overlapped.
		if overlap := one.until.Sub(next.returned); overlap > s.Early {
			s.Errorf("two leases overlap by %v, or their tokens fell: %d and %d", overlap, one.Token, next.Token)
		}
	}
}

// keysApart holds keys together that a careless encoding would mix up with each other, or with
// what a store keeps in addition to the key, such as "key:q" for a queue.
func keysApart(s *scene) {
	st := s.open()
	key := s.key()
	for _, suffix := range []string{
		"", ":", ":q", ":a", ":a:b", " ", "  ", "%", "%20", "*", "?", "[a]", "a", "A", "é", "e\u0301",
		"\"", "'", "\\", "/", "//", "/..", "\u2028", "\U0001F512", "a b", ";--", "$1", "0", "00",
	} {
		s.lock(st, key+suffix, long)
	}
	for _, k := range []string{key + "%", key + " ", key + "[a]", key + "\U0001F512"} {
		s.held(st, k)
	}
	longest := key + string(slices.Repeat([]byte("k"), driver.MaxKeyBytes-len(key)))
	s.lock(st, longest, long)
	s.lock(st, longest[:len(longest)-1], long)
	s.held(st, longest)
}
