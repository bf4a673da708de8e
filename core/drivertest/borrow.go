package drivertest

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var borrowChecks = []check{
	{name: "N7 a borrower's renewal ends no lease sooner", run: borrowerShortensNothing},
	{name: "N7 a borrower's renewal ends no shared lease sooner", run: borrowerShortensNothing, claim: driver.Shared, can: shares},
	{name: "N7 a borrower's renewal ends no permit sooner", run: borrowerShortensNothing, claim: permit(2), can: permits},
	{name: "N7 a borrower's TTL is the owner's at most", run: borrowerAddsNothing},
	{name: "N7 a borrower's TTL is the owner's at most, of a permit", run: borrowerAddsNothing, claim: permit(2), can: permits},
	{name: "N7 a borrower's hand-offs are the owner's at most", run: borrowerHandsOnNothing},
	{name: "N7 a borrower's renewal keeps the lease", run: borrowerRenews},
	{name: "N7 a borrower's renewal keeps a shared lease", run: borrowerRenews, claim: driver.Shared, can: shares},
	{name: "N7 the owner's last TTL is what counts", run: ownerChangesTTL},
	{name: "N7 the owner's last TTL is what counts, shared", run: ownerChangesTTL, claim: driver.Shared, can: shares},
	{name: "N7 the TTL of a repeated request is what counts", run: ownerAsksAgain},
	{name: "N7 the TTL of a repeated request is what counts, shared", run: ownerAsksAgain, claim: driver.Shared, can: shares},
	{name: "N7 a lease that was waited for can be borrowed", run: borrowedAfterAWait},
	{name: "N7 a downgraded lease can be borrowed", run: borrowedAfterADowngrade, can: shares},
	{name: "N7 a set can be borrowed, in part too", run: borrowedSet, can: inSets},
}

// borrowed is h's grant as a borrower states it, with that TTL.
func (h hold) borrowed(ttl time.Duration) driver.Grant {
	g := h.Grant
	g.Borrowed, g.TTL, g.Since, g.Term = true, ttl, time.Time{}, 0
	return g
}

// borrowerShortensNothing: the borrower may state a shorter TTL than the owner asked for. The
// owner still counts on its own.
func borrowerShortensNothing(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h, least := s.lock(a, key, long), s.ttls.Nearest(driver.MinTTL)
	for range 3 {
		if err := s.renew(b, h.borrowed(least)); err != nil {
			s.Fatalf("a renewal with less than the owner's TTL: %v", err)
		}
	}
	time.Sleep(least + s.Early + settle)
	s.noRoom(b, key, driver.Exclusive(key))
	s.mustRenew(h)
	s.mustRelease(h)
}

// borrowerAddsNothing: the borrower may state a longer TTL than the owner asked for. The key
// would be blocked for that long if both died.
func borrowerAddsNothing(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, s.TTL)
	w := s.follow(c, driver.Exclusive(key))
	s.runsOut("the lease that a borrower asked too much of", h, w, func() {
		for _, ttl := range []time.Duration{s.TTL + s.step(), 2 * s.TTL, driver.MaxTTL} {
			s.isLost(s.renew(b, h.borrowed(ttl)))
		}
	})
}

// borrowerHandsOnNothing: the number of hand-offs that a borrower claims is part of its token.
// With a wrong number, the token may be a later grant's.
func borrowerHandsOnNothing(s *scene) {
	a, b := s.open(), s.open()
	h := s.lock(a, s.key(), long)
	for n := range h.HandOffs + 1 {
		g := h.borrowed(h.TTL)
		g.HandedOn = n
		if err := s.renew(b, g); err != nil {
			s.Fatalf("a renewal of the lease that was handed on %d times, of %d: %v", n, h.HandOffs, err)
		}
	}
	g := h.borrowed(h.TTL)
	g.HandedOn = h.HandOffs + 1
	s.isLost(s.renew(b, g))
	s.mustRelease(h)
}

// borrowerRenews: a borrower's renewals keep the lease while the owner does not renew, as when
// its process is paused. If they ask for less than the owner did, a later one may still ask for as much.
func borrowerRenews(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		h := s.lock(a, s.key(), ttl+s.step())
		w := s.follow(c, driver.Exclusive(h.Claims[0].Key))
		last, _, tooLate := s.keeps(h, ttl, 3*ttl/2, w, func() error { return s.renew(b, h.borrowed(ttl)) })
		if tooLate {
			return true
		}
		called, returned, tooLate := s.timed(last, ttl, func() error { return s.renew(b, h.borrowed(h.TTL)) })
		if tooLate {
			return true
		}
		next := w.granted(h.TTL + 2*s.Late)
		s.lasted("the lease that a borrower renewed", h.TTL, called, returned, next.returned)
		s.isLost(s.renew(b, h.borrowed(ttl)))
		return false
	})
}

// ownerChangesTTL changes the TTL up, and down again.
func ownerChangesTTL(s *scene) {
	a, b := s.open(), s.open()
	h := s.lock(a, s.key(), long)
	for _, ttl := range []time.Duration{2 * long, long / 2} {
		h.TTL = s.ttls.Nearest(ttl)
		s.mustRenew(h)
		s.lendable(b, h)
	}
	s.mustRelease(h)
}

// step is how much longer than another TTL the next one is.
func (s *scene) step() time.Duration { return max(s.ttls.Step, time.Millisecond) }

// ownerAsksAgain for what it has, with a longer TTL and with a shorter one.
func ownerAsksAgain(s *scene) {
	a, b := s.open(), s.open()
	h := s.lock(a, s.key(), long)
	for _, ttl := range []time.Duration{2 * long, long / 2} {
		h.TTL = s.ttls.Nearest(ttl)
		if _, err := s.acquire(s.ctx, a, driver.Request{Owner: h.Owner, Claims: h.Claims, TTL: h.TTL, HandOffs: h.HandOffs}); err != nil {
			s.Fatalf("asked again by the owner: %v", err)
		}
		s.lendable(b, h)
	}
	s.mustRelease(h)
}

// lendable checks that h can be borrowed with its own TTL, and with no longer one.
func (s *scene) lendable(st driver.Store, h hold) {
	s.Helper()
	s.isLost(s.renew(st, h.borrowed(h.TTL+s.step())))
	if err := s.renew(st, h.borrowed(h.TTL)); err != nil {
		s.Errorf("renewed by a borrower, with the owner's TTL of %v: %v", h.TTL, err)
	}
}

// borrowedAfterAWait: the TTL of a request that waited counts, too.
func borrowedAfterAWait(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	first := s.lock(a, key, 2*long)
	w := s.enqueue(b, key, long)
	s.mustRelease(first)
	next := w.granted(s.Late)
	s.lendable(a, next)
	s.mustRelease(next)
}

func borrowedAfterADowngrade(s *scene) {
	a, b := s.open(), s.open()
	h := s.take(a, long, driver.Exclusive(s.key()))
	h.TTL = s.ttls.Nearest(long / 2)
	h = s.downgrade(h)
	s.lendable(b, h)
	s.mustRelease(h)
}

// borrowedSet: a borrower knows all keys of a set and needs one of them.
func borrowedSet(s *scene) {
	a, b := s.open(), s.open()
	keys := s.keys(3)
	h := s.take(a, long, driver.Exclusive(keys[0]), driver.Exclusive(keys[1]), driver.Exclusive(keys[2]))
	s.lendable(b, h)
	part := h
	part.Claims = h.Claims[1:2]
	s.lendable(b, part)
	s.mustRenew(h)
	s.mustRelease(h)
}
