package drivertest

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var (
	permits      = driver.Description{Permits: true}
	sharesToo    = driver.Description{Shared: true, Permits: true}
	permitChecks = []check{
		{name: "M1 at most N permits are in force", run: atMostN, can: permits},
		{name: "M1 at most N permits are in force, in a crowd whose N differ", run: atMostNInCrowd, can: permits},
		{name: "M1 permits and exclusive exclude each other", run: excludes(driver.Exclusive, permit(5)), can: permits},
		{name: "M1 permits and shared exclude each other", run: excludes(driver.Shared, permit(5)), can: sharesToo},
		{name: "M2 permits get behind a writer that waits", run: permitsGetBehind, can: permits, ordered: true},
		{name: "M2 permits get behind a reader that waits", run: permitsGetBehindReader, can: sharesToo, ordered: true},
		{name: "M6 N is the request's own", run: ownN, can: permits, ordered: true},
		{name: "M6 a request with a small N is not overtaken", run: smallNKeepsTurn, can: permits, ordered: true},
		{name: "A7 permits enter when the writer before them gives up", run: permitsAfterGivenUp, can: permits, ordered: true},
	}
)

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

// permitsGetBehind: a permit queues behind a waiting writer. Otherwise a stream of permits
// would keep the writer out.
func permitsGetBehind(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Permit(key, 5))
	writer := s.queue(b, long, driver.Exclusive(key))
	s.noRoom(a, key, driver.Permit(key, 5))
	late := s.queue(a, long, driver.Permit(key, 5))
	s.mustRelease(h)
	h = writer.granted(s.Late)
	late.waits()
	s.mustRelease(h)
	s.mustRenew(late.granted(s.Late))
}

// permitsGetBehindReader: waiting permits queue behind a reader, too. Otherwise the last permit
// would never be given back.
func permitsGetBehindReader(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	p1, p2 := s.take(a, long, driver.Permit(key, 2)), s.take(b, long, driver.Permit(key, 2))
	before := s.queue(b, long, driver.Permit(key, 2))
	time.Sleep(3 * time.Millisecond) // a backend's clock may have no finer resolution
	reader := s.queue(a, long, driver.Shared(key))
	time.Sleep(3 * time.Millisecond)
	after := s.queue(b, long, driver.Permit(key, 3)) // for which there is room among the permits
	s.mustRelease(p1)
	p3 := before.granted(s.Late)
	s.mustRelease(p2)
	time.Sleep(settle)
	after.waits()
	s.noRoom(a, key, driver.Permit(key, 2))
	s.mustRelease(p3)
	r := reader.granted(s.Late)
	after.waits()
	s.mustRelease(r)
	after.granted(s.Late)
}

// smallNKeepsTurn: a request with a small N would never get its turn if those with a greater N
// went on.
func smallNKeepsTurn(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	var held []hold
	for range 3 {
		held = append(held, s.take(a, long, driver.Permit(key, 3)))
	}
	small := s.queue(b, long, driver.Permit(key, 2))
	great := s.queue(a, long, driver.Permit(key, 4))
	s.noRoom(b, key, driver.Permit(key, 9))
	s.mustRelease(held[2]) // two are left: too many for the first waiter, not for the second
	time.Sleep(settle)
	small.waits()
	great.waits()
	s.mustRelease(held[1])
	h := small.granted(s.Late)
	s.rising([]uint64{h.Token, great.granted(s.Late).Token})
	s.mustRenew(held[0])
}

// permitsAfterGivenUp: when the writer has given up, there is room for the permits.
func permitsAfterGivenUp(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Permit(key, 3))
	writer := s.queue(b, long, driver.Exclusive(key))
	next := []*waiter{s.queue(a, long, driver.Permit(key, 3)), s.queue(c, long, driver.Permit(key, 3))}
	third := s.queue(c, long, driver.Permit(key, 3))
	writer.cancel()
	s.isHeld(writer.refused(s.Late), key)
	for _, w := range next {
		s.mustRenew(w.granted(s.Late))
	}
	third.waits()
	s.mustRenew(h)
}
