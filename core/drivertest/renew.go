package drivertest

import (
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var renewChecks = []check{
	{name: "N1 a renewal gives a full TTL", run: renewalExtends},
	{name: "N1 one error per grant, in order", run: renewalAnswersEach, permit: true},
	{name: "N2 lost means lost", run: renewalTellsLoss},
	{name: "N2 an outage is no loss", run: renewalOutage, needs: toSilence},
	{name: "N2 lost with the backend's data", run: renewalAfterDataLoss, needs: toRestart},
	{name: "N3 a renewal brings nothing back", run: renewalRevivesNothing},
	{name: "N3 a renewal touches no other owner's lease", run: renewalKeepsOff, permit: true},
	{name: "N4 failures do not spread", run: renewalIsolates},
}

// renewalExtends keeps a lease for longer than its TTL, then lets go.
func renewalExtends(s *scene) {
	a, b := s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		h := s.lock(a, s.key(), ttl)
		w := s.follow(b, h.Claims...)
		called, returned, tooLate := s.keeps(h, ttl, 3*ttl/2, w, func() error { return s.renew(a, h.Grant) })
		if tooLate {
			return true
		}
		next := w.granted(ttl + 2*s.Late)
		s.lasted("the renewed lease", ttl, called, returned, next.returned)
		return false
	})
}

// renewalAnswersEach mixes leases in force with lost ones. An answer in the wrong place would
// end a good lease and keep a bad one.
func renewalAnswersEach(s *scene) {
	st := s.open()
	if errs := st.Renew(s.ctx, nil); len(errs) != 0 {
		s.Errorf("Renew of nothing returned %v", errs)
	}
	const n = 100
	var grants []driver.Grant
	for i := range n {
		h := s.lock(st, s.key(), long)
		grants = append(grants, h.Grant)
		if i%3 == 0 {
			s.mustRelease(h)
		}
	}
	s.renewsAllBut(st, grants, func(i int) bool { return i%3 == 0 })
}

// renewsAllBut renews grants in one call. The grants for which lost is true must be lost, and
// the others renewed.
func (s *scene) renewsAllBut(st driver.Store, grants []driver.Grant, lost func(int) bool) {
	s.Helper()
	s.answersAllBut(st.Renew(s.ctx, grants), len(grants), lost)
}

// answersAllBut checks what a renewal of n grants has returned.
func (s *scene) answersAllBut(errs []error, n int, lost func(int) bool) {
	s.Helper()
	if len(errs) != n {
		s.Fatalf("Renew of %d grants returned %d errors", n, len(errs))
	}
	for i, err := range errs {
		switch {
		case lost(i) && !errors.Is(err, driver.ErrLeaseLost):
			s.Errorf("grant %d is lost, Renew says: %v", i, err)
		case !lost(i) && err != nil:
			s.Errorf("grant %d is in force, Renew says: %v", i, err)
		}
	}
}

// renewalTellsLoss renews leases that were released, ran out, were taken by another owner, or
// never existed.
func renewalTellsLoss(s *scene) {
	a, b := s.open(), s.open()
	released := s.lock(a, s.key(), long)
	s.mustRelease(released)
	s.isLost(s.renew(a, released.Grant))

	key := s.key()
	expired := s.lock(a, key, s.TTL)
	taken := s.freed(b, key, expired.returned.Add(s.TTL+s.Late))
	s.isLost(s.renew(a, expired.Grant))
	s.mustRelease(taken)
	s.isLost(s.renew(a, expired.Grant))

	never := driver.Grant{Owner: s.owner(), Claims: []driver.Claim{s.claim(s.key())}, TTL: s.ttls.Nearest(long), Token: 1}
	s.isLost(s.renew(a, never))
}

// renewalOutage: the lease is in force all the time. A missing answer must not tell its holder
// otherwise.
func renewalOutage(s *scene) {
	for _, q := range s.silences() {
		st := s.open()
		h := s.lock(st, s.key(), long)
		s.during(q, st, func() {
			errs := s.renewWithin(st, h.Grant)
			switch {
			case len(errs) != 1 || errs[0] == nil:
				s.Errorf("Renew of one grant got %v from a backend that does not answer", errs)
			case errors.Is(errs[0], driver.ErrLeaseLost):
				s.Errorf("an outage looks like a loss: %v", errs[0])
			}
		})
		s.mustRenew(h)
	}
}

// renewalAfterDataLoss: for the backend, the key is free. A renewal that set the key again
// could do so behind the back of a new holder.
func renewalAfterDataLoss(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	s.Restart(s.TB)
	s.answers(a)
	s.answers(b)
	s.isLost(s.renew(a, h.Grant))
	s.lock(b, key, long)
}

// renewalRevivesNothing: between the lease's end and the renewal, others may have held the key,
// although nobody holds it now.
func renewalRevivesNothing(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, s.TTL)
	time.Sleep(time.Until(h.returned.Add(s.TTL + s.Late)))
	s.isLost(s.renew(a, h.Grant))
	s.lock(b, key, long)
}

// renewalKeepsOff: owners without the key renew it: the previous holder, and owners with
// similar names.
func renewalKeepsOff(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	old := s.lock(a, key, s.TTL)
	_ = s.freed(b, key, old.returned.Add(s.TTL+s.Late))
	key = s.key()
	h := s.lock(b, key, s.TTL)
	w := s.follow(c, s.claim(key))
	s.runsOut("the lease that others tried to renew", h, w, func() {
		for _, g := range s.imposters(h.Grant, old.Owner) {
			s.isLost(s.renew(a, g))
		}
	})
}

// imposters returns grants of h's key for owners that are not h's.
func (s *scene) imposters(h driver.Grant, other string) []driver.Grant {
	var all []driver.Grant
	for _, owner := range []string{
		other, h.Owner[:len(h.Owner)-1], h.Owner[1:], h.Owner + "0", h.Owner + "/", "0" + h.Owner, s.owner(),
	} {
		g := h
		g.Owner = owner
		all = append(all, g)
	}
	return all
}

// renewalIsolates has one lost lease in a batch of good ones. The lease behind it must get its
// full TTL.
func renewalIsolates(s *scene) {
	a, b := s.open(), s.open()
	lostKey := s.key()
	gone := s.lock(a, lostKey, s.TTL)
	taken := s.freed(b, lostKey, gone.returned.Add(s.TTL+s.Late))
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		h1, h2 := s.lock(a, s.key(), ttl), s.lock(a, s.key(), ttl)
		w := s.follow(b, h2.Claims...)
		time.Sleep(ttl / 4)
		called := time.Now()
		errs := a.Renew(s.ctx, []driver.Grant{h1.Grant, gone.Grant, h2.Grant})
		returned := time.Now()
		if s.over(h1.called, ttl) {
			return true
		}
		s.answersAllBut(errs, 3, func(i int) bool { return i == 1 })
		s.lasted("the lease renewed next to a lost one", ttl, called, returned, w.granted(ttl+2*s.Late).returned)
		return false
	})
	s.mustRenew(taken)
}
