package drivertest

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var (
	inSets    = driver.Description{Sets: true}
	sharedSet = driver.Description{Sets: true, Shared: true, Permits: true}
	setChecks = []check{
		{name: "S1 a set that is refused holds nothing", run: refusedSet, can: inSets},
		{name: "S1 a set that gave up holds nothing", run: givenUpSet, can: inSets},
		{name: "S1 a set that waits gets all of its claims", run: waitingSet, can: inSets},
		{name: "S1 a set that waits keeps what it has", run: waitingSetKeeps, can: inSets},
		{name: "S1 a set whose process died holds nothing for longer than the TTL", run: deadSet, can: inSets, needs: toCut},
		{name: "S1 transfers never wait for each other for ever", run: transfers, can: inSets},
		{name: "S2 one token, above those of each key", run: setToken, can: inSets},
		{name: "A4 a set asked for again is one set", run: setAgain, can: inSets},
		{name: "A4 a refused repeat of a set ends no lease sooner", run: setRefusedAgain, can: sharedSet},
		{name: "N1 a renewal extends all claims of a set", run: setRenewed, can: inSets},
		{name: "N5 a part of a set is renewed", run: partRenewed, can: inSets},
		{name: "N6 a set of which one claim is lost is lost", run: brokenSetLost, can: inSets},
		{name: "R5 a release frees what is left of a set", run: brokenSetReleased, can: inSets},
	}
)

// keys makes n keys, in order.
func (s *scene) keys(n int) []string {
	var all []string
	for range n {
		all = append(all, s.key())
	}
	slices.Sort(all)
	return all
}

// exclusives claims each of keys.
func exclusives(keys ...string) []driver.Claim {
	var all []driver.Claim
	for _, k := range keys {
		all = append(all, driver.Exclusive(k))
	}
	return all
}

// refusedSet is refused because of its first, middle and last claim.
func refusedSet(s *scene) {
	a, b := s.open(), s.open()
	for i := range 3 {
		k := s.keys(3)
		h := s.lock(a, k[i], long)
		s.noRoom(b, k[i], exclusives(k...)...)
		for j, key := range k {
			if j != i {
				s.mustRelease(s.lock(a, key, long))
			}
		}
		s.mustRelease(h)
		s.mustRelease(s.take(b, long, exclusives(k...)...))
	}
}

// givenUpSet leaves neither claims nor a place in line.
func givenUpSet(s *scene) {
	a, b := s.open(), s.open()
	for i := range 3 {
		k := s.keys(3)
		h := s.lock(a, k[i], long)
		w := s.queue(b, long, exclusives(k...)...)
		w.cancel()
		s.isHeld(w.refused(s.Late), k[i])
		s.mustRelease(h)
		s.mustRelease(s.take(a, long, exclusives(k...)...))
	}
}

// waitingSet finds one claim after the other held.
func waitingSet(s *scene) {
	a, b := s.open(), s.open()
	k := s.keys(3)
	var held []hold
	for _, key := range k {
		held = append(held, s.lock(a, key, long))
	}
	w := s.queue(b, long, exclusives(k...)...)
	for _, h := range held {
		w.waits()
		s.mustRelease(h)
		time.Sleep(settle)
	}
	set := w.granted(s.Late)
	for i, key := range k {
		s.held(a, key)
		s.rising([]uint64{held[i].Token, set.Token})
	}
	s.mustRenew(set)
	s.mustRelease(set)
	s.mustRelease(s.take(a, long, exclusives(k...)...))
}

// waitingSetKeeps: a waiting set may hold claims, and waits for longer than its TTL. When it is
// granted, no claim may have run out meanwhile and gone to another owner.
func waitingSetKeeps(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		k := s.keys(2)
		h := s.lock(a, k[1], long)
		w := s.queue(b, ttl, exclusives(k...)...)
		var others []hold // owners that got the first key meanwhile keep it
		for waited := time.Now(); time.Since(waited) < 2*ttl; time.Sleep(ttl / 10) {
			req := s.request(k[0], long)
			called := time.Now()
			if g, err := s.acquire(s.ctx, c, req); err == nil {
				others = append(others, hold{g, c, called, time.Now()})
			}
		}
		released := time.Now()
		s.mustRelease(h)
		if len(others) > 0 { // a store may release everything while the set waits
			time.Sleep(settle)
			w.waits()
			for _, o := range others {
				released = time.Now()
				s.mustRelease(o)
			}
		}
		set := w.granted(s.Late)
		called, returned, tooLate := s.timed(released, ttl, func() error { return s.renew(b, set.Grant) })
		if tooLate {
			return true
		}
		next := s.freed(c, k[0], returned.Add(ttl+s.Late))
		s.lasted("the first claim of a set", ttl, called, returned, next.returned)
		return false
	})
}

// deadSet dies while it waits for its last claim, and then while it holds all claims.
func deadSet(s *scene) {
	a := s.open()
	for _, waits := range []bool{true, false} {
		b := s.open()
		k := s.keys(2)
		if waits {
			h := s.lock(a, k[1], long)
			s.queue(b, s.TTL, exclusives(k...)...)
			s.Cut(s.TB, b)
			s.mustRelease(h)
		} else {
			s.take(b, s.TTL, exclusives(k...)...)
			s.Cut(s.TB, b)
		}
		// A dead set in the queue may be given its last claim first.
		deadline := time.Now().Add(2*s.TTL + s.Late)
		s.freed(a, k[0], deadline)
		s.freed(a, k[1], deadline)
		s.Heal(s.TB, b)
	}
}

// transfers locks random pairs of a few accounts, in both directions, a hundred at once. A
// store that takes the keys in different orders gets stuck.
func transfers(s *scene) {
	const accounts, processes = 6, 4
	k := s.keys(accounts)
	var inside [accounts]atomic.Int64
	s.crowd(processes, s.many(25), 1, func(st driver.Store, _ int) bool {
		i := rand.IntN(accounts)
		j := (i + 1 + rand.IntN(accounts-1)) % accounts
		i, j = min(i, j), max(i, j)
		return s.within(st, func(driver.Grant) {
			for _, account := range []int{i, j} {
				if n := inside[account].Add(1); n != 1 {
					s.Errorf("%d transfers have the same account", n)
				}
			}
			inside[i].Add(-1)
			inside[j].Add(-1)
		}, exclusives(k[i], k[j])...)
	})
}

// setToken: the token rises for every claim of the set, whatever token the key had before, and
// even if the set had to wait.
func setToken(s *scene) {
	a, b := s.open(), s.open()
	k := s.keys(3)
	var before [3]uint64
	for i, key := range k {
		for range 5 * i {
			s.mustRelease(s.lock(a, key, long))
		}
		before[i] = s.released(a, driver.Exclusive(key))
	}
	set := s.take(b, long, exclusives(k...)...)
	s.mustRelease(set)
	h := s.lock(a, k[2], long)
	w := s.queue(b, long, exclusives(k...)...)
	s.mustRelease(h)
	waited := w.granted(s.Late)
	s.rising([]uint64{set.Token, h.Token, waited.Token})
	s.mustRenew(waited)
	s.mustRelease(waited)
	for i, key := range k {
		s.rising([]uint64{before[i], set.Token, waited.Token, s.released(a, driver.Exclusive(key))})
	}
}
