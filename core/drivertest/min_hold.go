package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var stays = driver.Description{MinHold: true}

var stayChecks = []check{
	{name: "R6 a lease stays after its release, and no longer", run: staysAfterRelease, can: stays},
	{name: "R6 a lease that stays is not its owner's to renew", run: stayingIsReleased, can: stays},
	{name: "R6 a lease that stays is not its owner's to downgrade", run: stayingIsNotShared, can: driver.Description{MinHold: true, Shared: true}},
	{name: "R6 a waiter learns how long a lease stays", run: stayIsTold, can: stays},
	{name: "R6 a lease that stays can be released at once", run: stayEnds, can: stays},
	{name: "R6 a set of every mode stays", run: setStays, can: driver.Description{MinHold: true, Shared: true, Permits: true, Sets: true}},
}

// staying is h as a release asks for it that keeps the key for d.
func (s *scene) staying(h hold, d time.Duration) driver.Grant {
	g := h.Grant
	g.MinHold = s.ttls.Nearest(d)
	return g
}

// staysAfterRelease: for less time than the lease had left, and for more.
func staysAfterRelease(s *scene) {
	a, b := s.open(), s.open()
	for _, lease := range []time.Duration{long, s.TTL} {
		s.inTime(lease, func(ttl time.Duration) (tooLate bool) {
			key := s.key()
			h := s.lock(a, key, ttl)
			stay := 2 * ttl
			if lease == long {
				stay = 2 * s.TTL
			}
			g := s.staying(h, stay)
			called, returned, tooLate := s.timed(h.called, ttl, func() error { return a.Release(s.ctx, g) })
			if tooLate {
				return true
			}
			next := s.freed(b, key, returned.Add(g.MinHold+s.Late))
			s.lasted("the stay", g.MinHold, called, returned, next.returned)
			s.rising([]uint64{h.Token, next.Token})
			s.mustRelease(next)
			return false
		})
	}
}

// stayingIsReleased: a renewal that was sent before the release, and comes after it, must not
// keep the key for another TTL.
func stayingIsReleased(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	w := s.enqueue(b, key, long)
	s.release(a, s.staying(h, long))
	s.isLost(s.renew(a, h.Grant))
	time.Sleep(settle)
	w.waits()
	s.release(a, s.staying(h, long)) // repeated, as after a lost answer
	other := s.staying(h, long)
	other.Token++
	s.isLostOnRelease(a, other)
	w.waits()
}

// stayingIsNotShared: the same for a downgrade, which is a renewal in another mode.
func stayingIsNotShared(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Exclusive(key))
	s.release(a, s.staying(h, long))
	s.isLost(a.Downgrade(s.ctx, h.asShared()))
	s.noRoom(b, key, driver.Shared(key))
	shared := s.downgrade(s.take(a, long, driver.Exclusive(s.key())))
	s.release(a, s.staying(shared, long))
	s.isLost(a.Downgrade(s.ctx, shared.Grant)) // repeated by the watchdog, which had no answer
}

// stayIsTold: the waiter knows another end, that of the lease.
func stayIsTold(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	w := s.enqueue(b, key, long)
	g := s.staying(h, s.TTL)
	called := time.Now()
	s.release(a, g)
	returned := time.Now()
	w.granted(g.MinHold + s.Late)
	s.lasted("the stay", g.MinHold, called, returned, w.at)
}

func stayEnds(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	w := s.enqueue(b, key, long)
	s.release(a, s.staying(h, long))
	s.release(a, h.Grant)
	next := w.granted(s.Late)
	s.isLostOnRelease(a, s.staying(h, long))
	s.mustRenew(next)
	s.mustRelease(next)
}

func setStays(s *scene) {
	a, b := s.open(), s.open()
	take := func() ([]string, hold) {
		k := s.keys(3)
		return k, s.take(a, long, driver.Exclusive(k[0]), driver.Permit(k[1], 1), driver.Shared(k[2]))
	}
	k, h := take()
	s.release(a, s.staying(h, long))
	s.isLost(s.renew(a, h.Grant))
	s.noRoom(b, k[0], driver.Shared(k[0]))
	s.noRoom(b, k[1], driver.Permit(k[1], 1))
	s.noRoom(b, k[2], driver.Exclusive(k[2]))

	k, h = take()
	g := s.staying(h, s.TTL)
	called := time.Now()
	s.release(a, g)
	returned := time.Now()
	for _, key := range k {
		next := s.freed(b, key, returned.Add(g.MinHold+s.Late))
		s.lasted("the stay of "+key, g.MinHold, called, returned.Add(s.Late), next.returned)
	}
}
