package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// readersGetBehind: there would be room for a reader beside those that read already. But a
// stream of them would keep the writer out.
func readersGetBehind(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	first := s.take(a, long, driver.Shared(key))
	writer := s.queue(b, long, driver.Exclusive(key))
	for _, st := range []driver.Store{a, b, c} {
		s.noRoom(st, key, driver.Shared(key))
	}
	readers := []*waiter{s.queue(a, long, driver.Shared(key)), s.queue(c, long, driver.Shared(key))}
	second := s.queue(c, long, driver.Exclusive(key))
	s.mustRelease(first)
	h := writer.granted(s.Late)
	for _, w := range append(readers, second) {
		w.waits()
	}
	s.noRoom(a, key, driver.Shared(key))
	s.mustRelease(h)
	for _, w := range readers {
		s.mustRenew(w.granted(s.Late))
	}
	second.waits()
}

// phases alternate: no request waits for more than one phase of the other kind, wherever it
// stands in the queue.
func phases(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Exclusive(key))
	second := s.queue(b, long, driver.Exclusive(key))
	early := s.queue(c, long, driver.Shared(key))
	third := s.queue(a, long, driver.Exclusive(key))
	late := s.queue(b, long, driver.Shared(key))

	s.mustRelease(h)
	r1, r2 := early.granted(s.Late), late.granted(s.Late)
	late = s.queue(c, long, driver.Shared(key)) // this phase is over for newcomers
	s.mustRelease(r1)
	s.noRoom(a, key, driver.Shared(key))
	for _, w := range []*waiter{second, third, late} {
		w.waits()
	}
	s.mustRelease(r2)
	h = second.granted(s.Late)
	third.waits()
	late.waits()
	s.mustRelease(h)
	r3 := late.granted(s.Late)
	third.waits()
	s.mustRelease(r3)
	s.rising([]uint64{r2.Token, h.Token, r3.Token, third.granted(s.Late).Token})
}

// phasesAfterExpiry: the store may forget which kind of holder died. Even so, readers enter
// together, and nobody enters with a writer.
func phasesAfterExpiry(s *scene) {
	a, b := s.open(), s.open()
	var writer *waiter
	var readers []*waiter
	var ends time.Time
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		key := s.key()
		h := s.take(a, ttl, driver.Exclusive(key))
		writer = s.follow(b, driver.Exclusive(key))
		readers = []*waiter{s.follow(a, driver.Shared(key)), s.follow(b, driver.Shared(key))}
		ends = h.returned.Add(ttl)
		return s.over(h.called, ttl)
	})
	r1, r2 := readers[0].granted(time.Until(ends)+2*s.Late), readers[1].granted(s.Late)
	writer.waits()
	s.mustRelease(r1)
	writer.waits()
	s.mustRelease(r2)
	writer.granted(s.Late)
}

// readersAfterGivenUp: without the writer, nothing keeps the readers out.
func readersAfterGivenUp(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Shared(key))
	writer := s.queue(b, long, driver.Exclusive(key))
	readers := []*waiter{s.queue(a, long, driver.Shared(key)), s.queue(c, long, driver.Shared(key))}
	writer.cancel()
	s.isHeld(writer.refused(s.Late), key)
	for _, w := range readers {
		s.mustRenew(w.granted(s.Late))
	}
	s.mustRelease(s.take(b, long, driver.Shared(key)))
	s.mustRenew(h)
}

// skipsDeadWriter: the first waiter, a writer, is dead. It may be given the key; then that
// lease has to end first.
func skipsDeadWriter(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Shared(key))
	s.queue(b, s.TTL, driver.Exclusive(key))
	readers := []*waiter{s.queue(a, long, driver.Shared(key)), s.queue(c, long, driver.Shared(key))}
	s.Cut(s.TB, b)
	defer s.Heal(s.TB, b)
	s.mustRelease(h)
	for _, w := range readers {
		w.granted(s.TTL + s.Late)
	}
}
