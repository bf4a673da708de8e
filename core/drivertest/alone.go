package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var termChecks = []check{
	{name: "M4 a reader that is not renewed ends alone", run: func(s *scene) { s.endsAlone(driver.Shared, driver.Exclusive, true) }, can: shares},
	{name: "M4 a permit that is not renewed ends alone", run: func(s *scene) { s.endsAlone(permit(2), permit(2), false) }, can: permits},
	{name: "M4 a dead reader costs a writer its TTL", run: func(s *scene) { s.deadHolder(driver.Shared, driver.Exclusive) }, can: shares, needs: toCut},
	{name: "M4 a dead holder of a permit costs the next its TTL", run: func(s *scene) { s.deadHolder(permit(2), permit(2)) }, can: permits, needs: toCut},
	{name: "N5 a renewal compares the token", run: renewalComparesToken, can: shares},
	{name: "N5 a renewal compares the mode", run: renewalComparesMode, can: shares},
}

// endsAlone lets one of two leases run out while the other one goes on. Neither ends the other, or keeps it alive.
// blocked says whether the other lease alone keeps the waiter out: a writer enters when the last reader is gone.
func (s *scene) endsAlone(held, wanted func(string) driver.Claim, blocked bool) {
	s.Helper()
	a, b, c := s.open(), s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		key := s.key()
		dies, lives := s.take(a, ttl, held(key)), s.take(b, ttl, held(key))
		w := s.follow(c, wanted(key))
		outOfTurn := w
		if !blocked {
			outOfTurn = nil
		}
		called, returned, tooLate := s.keeps(lives, ttl, ttl+s.Late, outOfTurn, func() error { return s.renew(b, lives.Grant) })
		if tooLate {
			return true
		}
		s.isLost(s.renew(a, dies.Grant)) // even if the other lease goes on
		if !blocked {
			next := w.granted(s.Late)
			s.lasted("the lease that was not renewed", ttl, dies.called, dies.returned, next.returned)
			if _, _, tooLate := s.timed(called, ttl, func() error { return s.renew(b, lives.Grant) }); tooLate {
				return true
			}
		} else {
			next := w.granted(ttl + 2*s.Late)
			s.lasted("the last of the leases", ttl, called, returned, next.returned)
		}
		s.isLostOnRelease(a, dies.Grant)
		return false
	})
}

// deadHolder kills one of two processes that hold the key. The other one releases.
func (s *scene) deadHolder(held, wanted func(string) driver.Claim) {
	s.Helper()
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	dies := s.take(a, s.TTL, held(key))
	other := s.take(b, long, held(key))
	w := s.follow(c, wanted(key))
	s.Cut(s.TB, a)
	defer s.Heal(s.TB, a)
	if wanted(key).Mode == driver.ModeExclusive {
		s.mustRelease(other)
	}
	next := w.granted(s.TTL + s.Late)
	s.lasted("the dead holder's lease", s.TTL, dies.called, dies.returned, next.returned)
}

// renewalComparesToken: otherwise an owner that was granted the key twice could keep the second
// lease alive with a grant of the first.
func renewalComparesToken(s *scene) {
	a, b := s.open(), s.open()
	for _, claim := range []func(string) driver.Claim{driver.Exclusive, driver.Shared} {
		key := s.key()
		h := s.take(a, s.TTL, claim(key))
		w := s.follow(b, driver.Exclusive(key))
		s.runsOut("the lease renewed by other tokens", h, w, func() {
			for _, token := range []uint64{h.Token - 1, h.Token + 1, 1, h.Token * 10} {
				g := h.Grant
				g.Token = token
				s.isLost(s.renew(a, g))
			}
		})
	}
}

// renewalComparesMode: a renewal must not confirm a writer while others read.
func renewalComparesMode(s *scene) {
	a, b := s.open(), s.open()
	for _, modes := range [][2]func(string) driver.Claim{{driver.Exclusive, driver.Shared}, {driver.Shared, driver.Exclusive}} {
		key := s.key()
		h := s.take(a, long, modes[0](key))
		g := h.Grant
		g.Claims = []driver.Claim{modes[1](key)}
		s.isLost(s.renew(a, g))
		s.noRoom(b, key, driver.Exclusive(key))
		s.mustRenew(h)
		s.mustRelease(h)
	}
}
