package drivertest

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var (
	permits      = driver.Description{Permits: true}
	sharesToo    = driver.Description{Shared: true, Permits: true}
	permitChecks = append(onePermit(), []check{
		{name: "M1 at most N permits are in force", run: atMostN, can: permits},
		{name: "M1 at most N permits are in force, in a crowd whose N differ", run: atMostNInCrowd, can: permits},
		{name: "M1 permits and exclusive exclude each other", run: excludes(driver.Exclusive, permit(5)), can: permits},
		{name: "M1 permits and shared exclude each other", run: excludes(driver.Shared, permit(5)), can: sharesToo},
		{name: "M2 permits get behind a writer that waits", run: permitsGetBehind, can: permits, ordered: true},
		{name: "M2 permits get behind a reader that waits", run: permitsGetBehindReader, can: sharesToo, ordered: true},
		{name: "M6 N is the request's own", run: ownN, can: permits, ordered: true},
		{name: "M6 a request with a small N is not overtaken", run: smallNKeepsTurn, can: permits, ordered: true},
	}...)
)

// onePermit lists the checks of exclusive leases that hold for a single permit, too.
func onePermit() []check {
	var again []check
	for _, all := range [][]check{acquireChecks, renewChecks, releaseChecks} {
		for _, c := range all {
			switch c.name {
			case "A1 one lease per key at a time, holders dying",
				"A2 a grant lasts its TTL",
				"A2 a grant lasts its TTL, nobody waiting",
				"A2 a grant after a wait lasts its TTL",
				"A3 tokens rise",
				"A4 idempotent by owner, asked at the same time",
				"A5 refused at once without Wait",
				"A6 waiters are served in order of arrival",
				"A7 a waiter that gave up is skipped",
				"A7 a waiter whose process closed is skipped",
				"A7 a waiter whose process died is skipped",
				"A8 a wait behind a holder ends as held",
				"A9 a cancel that meets the grant leaves nothing behind",
				"N1 one error per grant, in order",
				"N3 a renewal touches no other owner's lease",
				"R2 a release touches no other owner's lease":
				c.name, c.can = byPermit+c.name, permits
				c.claim = func(key string) driver.Claim { return driver.Permit(key, 1) }
				again = append(again, c)
			}
		}
	}
	return again
}

// permit returns a function that claims one of n permits of its key.
func permit(n int) func(string) driver.Claim {
	return func(key string) driver.Claim { return driver.Permit(key, n) }
}

// atMostN: several processes hold permits. One request waits, and one comes when a permit is
// given back that was not granted last.
func atMostN(s *scene) {
	const n = 3
	a, b := s.open(), s.open()
	key := s.key()
	var held []hold
	for i := range n {
		held = append(held, s.take([]driver.Store{a, b}[i%2], long/time.Duration(i+1), driver.Permit(key, n)))
	}
	by := s.noRoom(a, key, driver.Permit(key, n))
	if first := held[n-1].TTL; by.RetryAfter > first {
		s.Errorf("RetryAfter is %v, and the first of the permits ends after %v", by.RetryAfter, first)
	}
	w := s.queue(b, long, driver.Permit(key, n))
	for _, h := range held {
		s.mustRenew(h)
	}
	w.waits()
	s.mustRelease(held[1])
	last := w.granted(s.Late)
	s.noRoom(b, key, driver.Permit(key, n))
	s.rising([]uint64{held[0].Token, held[1].Token, held[2].Token, last.Token})
	s.mustRelease(held[0])
	s.mustRenew(s.take(a, long, driver.Permit(key, n)))
	s.isLost(s.renew(a, held[0].Grant))
}

// atMostNInCrowd counts who is inside. As in a rollout, processes with an old N run beside those with a new one,
// and each keeps its own.
func atMostNInCrowd(s *scene) {
	const before, after = 4, 2
	key := s.key()
	in := inside{tokens: make(map[uint64]bool)}
	s.crowd(3, 4, 6, func(st driver.Store, i int) bool {
		n := before
		if i%2 == 0 {
			n = after
		}
		return s.within(st, func(g driver.Grant) { in.visit(s, g) }, driver.Permit(key, n))
	})
	st := s.open() // nothing is left of the old N
	s.take(st, long, driver.Permit(key, after))
	s.take(st, long, driver.Permit(key, after))
	s.noRoom(st, key, driver.Permit(key, after))
}

// inside has the holders of one key's permits.
type inside struct {
	mu     sync.Mutex
	tokens map[uint64]bool
}

// visit goes in for a moment. Holders with smaller tokens that are still inside were there when
// g was granted. There must be fewer of them than g's own N.
func (in *inside) visit(s *scene, g driver.Grant) {
	in.mu.Lock()
	before := 0
	for token := range in.tokens {
		if token < g.Token {
			before++
		}
	}
	in.tokens[g.Token] = true
	in.mu.Unlock()
	if n := g.Claims[0].Permits; before >= n {
		s.Errorf("one of %d permits was granted while %d were in force", n, before)
	}
	time.Sleep(settle)
	in.mu.Lock()
	delete(in.tokens, g.Token)
	in.mu.Unlock()
}

// ownN: requests with different N compete for the same permits.
func ownN(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	first := s.take(a, long, driver.Permit(key, 1))
	s.noRoom(b, key, driver.Permit(key, 1))
	second := s.take(b, long, driver.Permit(key, 3))
	s.noRoom(a, key, driver.Permit(key, 2))
	third := s.take(a, long, driver.Permit(key, 3))
	s.noRoom(b, key, driver.Permit(key, 3))
	s.mustRelease(first)
	s.noRoom(b, key, driver.Permit(key, 2))
	s.mustRelease(second)
	s.take(b, long, driver.Permit(key, 2))
	s.mustRenew(third)
}
