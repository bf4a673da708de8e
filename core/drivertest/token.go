package drivertest

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// rising checks tokens in the order of their grants.
func (s *scene) rising(tokens []uint64) {
	s.Helper()
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			s.Errorf("token %d of grant %d is not greater than %d of the one before", tokens[i], i, tokens[i-1])
		}
	}
}

// tokensRise from process to process, after a release and after the death of the holder.
func tokensRise(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	var tokens []uint64
	for range 5 {
		for _, st := range []driver.Store{a, b} {
			h := s.lock(st, key, long)
			tokens = append(tokens, h.Token)
			s.mustRelease(h)
		}
	}
	h := s.lock(a, key, s.TTL) // and again after the holder has died
	tokens = append(tokens, h.Token)
	tokens = append(tokens, s.freed(b, key, h.returned.Add(s.TTL+s.Late)).Token)
	s.rising(tokens)
}

// tokensGoWithClock tolerates a backend whose clock is a little wrong.
func tokensGoWithClock(s *scene) {
	h := s.lock(s.open(), s.key(), long)
	if least := h.called.Add(-time.Minute).UnixMicro(); h.Token < uint64(least) {
		s.Errorf("token %d is behind the clock, %d µs: after a loss of the data it would fall behind earlier ones", h.Token, least)
	}
}

// tokensFitDoubles, as clients have them that know no other numbers: neighbours must stay
// apart and in order. The clock may be this one's until the year 2200, and the test's comes
// first to a token that does not fit.
func tokensFitDoubles(s *scene) {
	a := s.open()
	key := s.key()
	last := 0.0
	for range 5 {
		h := s.lock(a, key, long)
		for token := h.Token; token <= h.Token+h.HandOffs; token++ {
			var got float64
			if err := json.Unmarshal(strconv.AppendUint(nil, token, 10), &got); err != nil {
				s.Fatalf("token %d: %v", token, err)
			}
			if got <= last || got >= 1<<53 {
				s.Fatalf("token %d is %.0f to a client that reads doubles, after %.0f", token, got, last)
			}
			last = got
		}
		s.mustRelease(h)
	}
}

var reservedChecks = []check{
	{name: "A13 reserved tokens are the grant's alone", run: reservedAlone},
	{name: "A13 no more tokens are reserved than wanted", run: reservedAsWanted},
	{name: "A13 an owner that asks again has as many reserved", run: reservedAgain},
	{name: "A13 reserved tokens do not outrun the clock", run: reservedByClock},
}

// after checks that next was granted after h, however often h was handed on.
func (s *scene) after(h, next driver.Grant) {
	s.Helper()
	if last := h.Token + h.HandOffs; next.Token <= last {
		s.Errorf("token %d comes after %d, the last of the %d that an earlier grant has reserved", next.Token, last, h.HandOffs)
	}
}

// reservedAlone ends a lease as soon as it is there, while another process asks for the key:
// so soon that the clock has not passed what the lease has reserved. Later the clock would
// hide the mistake, but not after it was set back.
func reservedAlone(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	for range 30 {
		key := s.key()
		first, second := s.request(key, long), s.request(key, long)
		first.HandOffs, second.HandOffs, second.Wait = 1000, 1000, true
		var one, two driver.Grant
		var refused, failed error
		var all sync.WaitGroup
		all.Go(func() {
			if one, refused = a.Acquire(s.ctx, first); refused == nil {
				_ = a.Release(s.ctx, one) // if that has not been done by then
			}
		})
		all.Go(func() { two, failed = b.Acquire(s.ctx, second) })
		for range 3 { // nobody knows yet whether the first one has the key, or with which token
			_ = c.Release(s.ctx, driver.Grant{Owner: first.Owner, Claims: first.Claims, TTL: first.TTL})
		}
		all.Wait()
		if failed != nil {
			s.Fatalf("Acquire with Wait: %v", failed)
		}
		if refused == nil {
			s.after(one, two)
		}
		s.mustRelease(hold{Grant: two, st: b})
	}
}

// reservedAsWanted: acquire compares the two. Requests that come together may leave together.
func reservedAsWanted(s *scene) {
	a, b := s.open(), s.open()
	var all sync.WaitGroup
	for i := range 64 {
		req := s.request(s.key(), long)
		req.HandOffs = uint64(i%4) * 7
		all.Go(func() {
			if g, err := s.acquire(s.ctx, a, req); err != nil {
				s.Errorf("Acquire: %v", err)
			} else if err := a.Release(s.ctx, g); err != nil {
				s.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	key := s.key()
	for _, wanted := range []uint64{0, 1, 7} {
		req := s.request(key, long)
		req.HandOffs = wanted
		h := s.takeBy(a, req)
		w := s.request(key, long)
		w.Wait, w.HandOffs = true, wanted
		waiter := s.queueUntil(s.ctx, b, w)
		s.mustRelease(h)
		s.mustRelease(waiter.granted(s.Late))
	}
}

// reservedAgain: the first answer may not have arrived.
func reservedAgain(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	req := s.request(key, long)
	first := s.takeBy(a, req)
	s.mustRenew(first)
	again := s.takeBy(a, req)
	if again.HandOffs != first.HandOffs {
		s.Errorf("asked again, %d tokens are reserved after %d", again.HandOffs, first.HandOffs)
	}
	s.mustRelease(first)
	s.after(again.Grant, s.lock(b, key, long).Grant)
}

// reservedByClock, or tokens are so far ahead of it that they fall when the data is lost. It
// allows for a backend whose clock is a little off.
func reservedByClock(s *scene) {
	a := s.open()
	key := s.key()
	for range 5 {
		req := s.request(key, long)
		req.HandOffs = uint64(time.Hour / time.Microsecond)
		h := s.takeBy(a, req)
		if last, most := h.Token+h.HandOffs, uint64(time.Now().Add(time.Minute).UnixMicro()); last > most {
			s.Errorf("token %d is reserved, and the clock is at %d µs", last, most)
		}
		s.mustRelease(h)
	}
}

// tokensRiseAfterLoss uses keys that were free and held when the backend forgot them. A holder
// from before must not get past a fence.
func tokensRiseAfterLoss(s *scene) {
	a, b := s.open(), s.open()
	released, held := s.key(), s.key()
	for range 50 { // so many that a counter that began again would still be behind
		s.mustRelease(s.lock(a, released, long))
		s.mustRelease(s.lock(b, held, long))
	}
	one, two := s.lock(a, released, long), s.lock(a, held, long)
	s.mustRelease(one)
	s.Restart(s.TB)
	for _, st := range []driver.Store{a, b} {
		s.answers(st)
	}
	s.rising([]uint64{one.Token, s.lock(b, released, long).Token})
	s.rising([]uint64{two.Token, s.lock(b, held, long).Token})
	s.isLost(s.renew(a, two.Grant))
}
