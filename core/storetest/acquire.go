package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core"
)

var acquireChecks = []check{
	{name: "A1 one lease per key at a time", run: oneAtATime},
	{name: "A1 one lease per key at a time, holders dying", run: oneAtATimeDying},
	{name: "A1 keys are told apart", run: keysApart},
	{name: "A2 a grant lasts its TTL", run: lastsTTL},
	{name: "A2 a grant lasts its TTL, nobody waiting", run: lastsTTLUnwatched},
	{name: "A2 a grant after a wait lasts its TTL", run: lastsTTLAfterWait},
	{name: "A3 tokens rise", run: tokensRise},
	{name: "A3 tokens go with the clock", run: tokensGoWithClock},
	{name: "A3 tokens rise after the data is lost", run: tokensRiseAfterLoss, needs: toRestart},
	{name: "A4 idempotent by owner", run: idempotent},
	{name: "A4 idempotent by owner, asked at the same time", run: idempotentAtOnce},
	{name: "A5 refused at once without Wait", run: refusedAtOnce},
	{name: "A6 waiters are served in order of arrival", run: servedInOrder},
	{name: "A6 waiters are served in order after an expiry", run: servedInOrderAfterExpiry},
	{name: "A7 a waiter that gave up is skipped", run: skipsGivenUp},
	{name: "A7 a waiter whose process closed is skipped", run: skipsClosed},
	{name: "A7 a waiter whose process died is skipped", run: skipsDead, needs: toCut},
	{name: "A8 a wait behind a holder ends as held", run: waitEndsHeld},
	{name: "A8 a wait for a silent backend ends as unavailable", run: waitEndsUnavailable, needs: toSilence},
	{name: "A9 an error leaves nothing behind", run: leavesNothing},
	{name: "A9 a cancel that meets the grant leaves nothing behind", run: leavesNothingInRace},
	{name: "A9 an outage leaves nothing behind for longer than the TTL", run: leavesNothingInOutage, needs: toSilence},
	{name: "A10 an outage is unavailable within the bound, never held", run: outage, needs: toSilence},
	{name: "A11 closed after Close", run: closedAfterClose},
}

// oneAtATime has goroutines of several processes take turns.
func oneAtATime(s *scene) {
	const processes, goroutines, rounds = 3, 4, 8
	key := s.key()
	var inside atomic.Int64
	var mu sync.Mutex
	var tokens []uint64 // in the order of the grants
	turn := func(st core.Store) bool {
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

func (s *scene) rising(tokens []uint64) {
	s.Helper()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			s.Errorf("token %d of grant %d is not greater than %d of the one before", tokens[i], i, tokens[i-1])
		}
	}
}

// oneAtATimeDying is oneAtATime with holders that never release, seen through
// the time that each was entitled to believe in its lease.
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
				h := tenure{hold: hold{g, called, time.Now()}}
				h.until = h.since().Add(s.TTL)
				if (p+round)%2 == 0 {
					if now := time.Now(); now.Before(h.until) {
						h.until = now
					}
					if err := st.Release(s.ctx, g); err != nil {
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
	slices.SortFunc(history, func(a, b tenure) int { return a.returned.Compare(b.returned) })
	for i := 1; i < len(history); i++ {
		one, next := history[i-1], history[i]
		if overlap := one.until.Sub(next.returned); overlap > s.Early {
			s.Errorf("two leases overlap by %v: tokens %d and %d", overlap, one.Token, next.Token)
		}
		if next.Token <= one.Token {
			s.Errorf("token %d was granted after %d", next.Token, one.Token)
		}
	}
}

// keysApart holds keys together that a careless encoding would mix up.
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
	longest := key + string(slices.Repeat([]byte("k"), core.MaxKeyBytes-len(key)))
	s.lock(st, longest, long)
	s.lock(st, longest[:len(longest)-1], long)
	s.held(st, longest)
}

func lastsTTL(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, s.TTL)
	next := s.enqueue(b, key, long).granted(s.TTL + 2*s.Late)
	s.lasted("the lease", s.TTL, h.called, h.returned, next.returned)
	s.lasted("the lease, as its holder counts,", s.TTL, h.since(), h.returned, next.returned)
}

func lastsTTLUnwatched(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, s.TTL)
	next := s.freed(b, key, h.returned.Add(s.TTL+s.Late))
	s.lasted("the lease", s.TTL, h.called, h.returned, next.returned)
}

// lastsTTLAfterWait has a waiter wait for longer than the lease it asks for: a
// store that counts the lease from when the wait began gives it nothing.
func lastsTTLAfterWait(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	first := s.lock(a, key, long)
	w := s.enqueue(b, key, s.TTL)
	last := s.enqueue(c, key, long)
	time.Sleep(s.TTL + s.Early)
	released := time.Now()
	s.mustRelease(a, first.Grant)
	h := w.granted(s.Late)
	if h.Since.IsZero() {
		s.Fatal("after a wait, the grant must say since when it counts")
	}
	if !h.Since.Add(s.TTL).After(h.returned) {
		s.Fatalf("the lease counts from %v before it was granted: it is over already", h.returned.Sub(h.Since))
	}
	next := last.granted(s.TTL + 2*s.Late)
	s.lasted("the lease", s.TTL, released, h.returned, next.returned)
	s.lasted("the lease, as its holder counts,", s.TTL, h.Since, h.returned, next.returned)
}

func tokensRise(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	var tokens []uint64
	for range 5 {
		for _, st := range []core.Store{a, b} {
			h := s.lock(st, key, long)
			tokens = append(tokens, h.Token)
			s.mustRelease(st, h.Grant)
		}
	}
	h := s.lock(a, key, s.TTL) // and once the holder is gone
	tokens = append(tokens, h.Token)
	tokens = append(tokens, s.freed(b, key, h.returned.Add(s.TTL+s.Late)).Token)
	s.rising(tokens)
}

// tokensGoWithClock allows for a backend whose clock is a little off.
func tokensGoWithClock(s *scene) {
	h := s.lock(s.open(), s.key(), long)
	if least := h.called.Add(-time.Minute).UnixMicro(); h.Token < uint64(least) {
		s.Errorf("token %d is behind the clock, %d µs: after a loss of the data it would fall behind earlier ones", h.Token, least)
	}
}

func tokensRiseAfterLoss(s *scene) {
	a, b := s.open(), s.open()
	released, held := s.key(), s.key()
	one, two := s.lock(a, released, long), s.lock(a, held, long)
	s.mustRelease(a, one.Grant)
	s.Restart(s.TB)
	for _, st := range []core.Store{a, b} {
		s.answers(st)
	}
	s.rising([]uint64{one.Token, s.lock(b, released, long).Token})
	s.rising([]uint64{two.Token, s.lock(b, held, long).Token})
	s.isLost(s.renew(a, two.Grant))
}

func idempotent(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	for _, wait := range []bool{false, true} {
		req := s.request(s.key(), s.TTL)
		first, err := s.acquire(s.ctx, a, req)
		if err != nil {
			s.Fatalf("Acquire of a free key: %v", err)
		}
		// The owner that has the key must not be sent to the end of the line.
		w := s.enqueue(b, req.Claims[0].Key, long)
		time.Sleep(s.TTL / 2)
		req.Wait = wait
		called := time.Now()
		again, err := s.acquire(s.ctx, a, req)
		returned := time.Now()
		if err != nil {
			s.Fatalf("Acquire by the owner that has the key: %v", err)
		}
		if again.Token != first.Token {
			s.Errorf("asked again, the same owner got token %d after %d", again.Token, first.Token)
		}
		next := w.granted(s.TTL + 2*s.Late)
		s.lasted("the lease that was asked for again", s.TTL, called, returned, next.returned)
		s.mustRelease(b, next.Grant)
		s.mustRelease(c, s.lock(c, req.Claims[0].Key, long).Grant) // one lease: one release
	}
}

func idempotentAtOnce(s *scene) {
	const times = 8
	a, b := s.open(), s.open()
	req := s.request(s.key(), long)
	var tokens [times]uint64
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() {
			g, err := s.acquire(s.ctx, a, req)
			if err != nil {
				s.Errorf("Acquire: %v", err)
			}
			tokens[i] = g.Token
		})
	}
	all.Wait()
	for _, token := range tokens {
		if token != tokens[0] {
			s.Fatalf("one owner got several tokens: %v", tokens)
		}
	}
	s.mustRelease(a, core.Grant{Owner: req.Owner, Claims: req.Claims, TTL: req.TTL, Token: tokens[0]})
	s.lock(b, req.Claims[0].Key, long)
}

func refusedAtOnce(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	for _, st := range []core.Store{a, b} {
		called := time.Now()
		_, err := s.acquire(s.ctx, st, s.request(key, long))
		if took := time.Since(called); took > s.Late {
			s.Errorf("the refusal took %v", took)
		}
		s.isHeld(err, key)
		var held *core.HeldError
		errors.As(err, &held)
		if held.Holder != "" && held.Holder != h.Owner {
			s.Errorf("the holder is said to be %q, is %q", held.Holder, h.Owner)
		}
		if held.RetryAfter < 0 || held.RetryAfter > long+s.Late {
			s.Errorf("RetryAfter is %v of a lease of %v", held.RetryAfter, long)
		}
	}
}

func closedAfterClose(s *scene) {
	st := s.open()
	key := s.key()
	s.mustRelease(st, s.lock(st, key, long).Grant)
	if err := st.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	for _, wait := range []bool{false, true} {
		req := s.request(key, long)
		req.Wait = wait
		ctx, cancel := context.WithTimeout(s.ctx, s.Late)
		_, err := s.acquire(ctx, st, req)
		cancel()
		if !errors.Is(err, core.ErrClosed) {
			s.Errorf("want an error that matches core.ErrClosed, got %v", err)
		}
	}
}
