package drivertest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// takeTurns lets goroutines of several processes take turns, and counts who is inside: only the leases keep them
// apart. All but each nth of them are readers.
func (s *scene) takeTurns(nth int) {
	key := s.key()
	var readers, others atomic.Int64
	var mu sync.Mutex
	var tokens []uint64 // of those that are no readers, in the order of the grants
	read := func(driver.Grant) {
		readers.Add(1)
		if n := others.Load(); n != 0 {
			s.Errorf("%d owners are in with a reader", n)
		}
		time.Sleep(time.Millisecond)
		readers.Add(-1)
	}
	work := func(g driver.Grant) {
		if n, m := others.Add(1), readers.Load(); n != 1 || m != 0 {
			s.Errorf("%d owners and %d readers are in", n, m)
		}
		mu.Lock()
		tokens = append(tokens, g.Token)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		others.Add(-1)
	}
	s.crowd(3, 4, 8, func(st driver.Store, i int) bool {
		if i%nth == 0 {
			return s.within(st, work, s.claim(key))
		}
		return s.within(st, read, driver.Shared(key))
	})
	s.rising(tokens)
}

// takeTurnsDying is takeTurns with holders that never release. It compares the times in which each was entitled
// to believe in its lease.
func (s *scene) takeTurnsDying(nth int) {
	type tenure struct {
		hold
		until time.Time
	}
	key := s.key()
	var mu sync.Mutex
	var history []tenure
	s.crowd(4, 1, 3, func(st driver.Store, i int) bool {
		claim := driver.Shared(key)
		if i%nth == 0 {
			claim = s.claim(key)
		}
		req := s.ask(s.TTL, claim)
		req.Wait = true
		called := time.Now()
		g, err := s.acquire(s.ctx, st, req)
		if err != nil {
			s.Errorf("Acquire: %v", err)
			return false
		}
		h := tenure{hold: hold{g, st, called, time.Now()}}
		h.until = h.since().Add(s.TTL)
		if i%4 < 2 {
			if now := time.Now(); now.Before(h.until) {
				h.until = now
			}
			if err := st.Release(s.ctx, g); err != nil && !s.lostBySlowness(err, h.since(), s.TTL) {
				s.Errorf("Release: %v", err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, h)
		return true
	})
	// Sort by token, because two grants may return at the same moment.
	slices.SortFunc(history, func(a, b tenure) int { return cmp.Compare(a.Token, b.Token) })
	for i, one := range history {
		for _, next := range history[i+1:] {
			if next.Token == one.Token {
				s.Errorf("two grants have token %d", one.Token)
			}
			if one.Claims[0].Mode == driver.ModeShared && next.Claims[0].Mode == driver.ModeShared {
				continue
			}
			// A grant was made before it returned. So if these times overlap, the leases
			// overlapped.
			if overlap := one.until.Sub(next.returned); overlap > s.Early {
				s.Errorf("%s and %s leases overlap by %v, or their tokens fell: %d and %d",
					one.Claims[0].Mode, next.Claims[0].Mode, overlap, one.Token, next.Token)
			}
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
