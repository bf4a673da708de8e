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
