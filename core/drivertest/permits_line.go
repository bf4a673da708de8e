package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

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
	after := s.queue(b, long, driver.Permit(key, 2))
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

// readersAfterPermits: all waiting readers follow, before the writer that came first.
func readersAfterPermits(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	p1, p2 := s.take(a, long, driver.Permit(key, 2)), s.take(b, long, driver.Permit(key, 2))
	writer := s.queue(b, long, driver.Exclusive(key))
	readers := []*waiter{s.queue(a, long, driver.Shared(key)), s.queue(c, long, driver.Shared(key))}
	s.mustRelease(p1)
	for _, w := range append(readers, writer) {
		w.waits()
	}
	s.noRoom(c, key, driver.Shared(key))
	s.mustRelease(p2)
	for _, w := range readers {
		h := w.granted(s.Late)
		writer.waits()
		s.mustRelease(h)
	}
	writer.granted(s.Late)
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

// permitsInOrder has writers and permits in one queue. Permits that follow each other enter
// together, as many as there is room for.
func permitsInOrder(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Exclusive(key))
	var group []*waiter
	for i := range 3 {
		group = append(group, s.queue([]driver.Store{b, c, a}[i], long, driver.Permit(key, 2)))
	}
	writer := s.queue(b, long, driver.Exclusive(key))
	last := s.queue(c, long, driver.Permit(key, 9))
	s.mustRelease(h)
	p1, p2 := group[0].granted(s.Late), group[1].granted(s.Late)
	group[2].waits()
	s.mustRelease(p2)
	p3 := group[2].granted(s.Late)
	s.mustRelease(p1)
	writer.waits()
	last.waits()
	s.mustRelease(p3)
	w := writer.granted(s.Late)
	last.waits()
	s.mustRelease(w)
	s.rising([]uint64{h.Token, p1.Token, p2.Token, p3.Token, w.Token, last.granted(s.Late).Token})
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
