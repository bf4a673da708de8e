package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var downgradeChecks = []check{
	{name: "M5 a downgraded lease is shared, under its token", run: downgraded, can: shares},
	{name: "M5 a downgrade lets waiting readers in, and no writer", run: downgradeLetsReadersIn, can: shares, ordered: true},
	{name: "M5 a downgrade leaves no gap", run: downgradeWithoutGap, can: shares},
	{name: "M5 a downgraded lease lasts its TTL", run: downgradedLasts, can: shares},
	{name: "M5 a set of every mode is downgraded", run: downgradedSet, can: sharedSet},
	{name: "M7 a downgrade brings nothing back", run: downgradeRevivesNothing, can: shares},
	{name: "M7 a downgrade is the owner's, and turns no other mode", run: downgradeOfNothing, can: sharesToo},
	{name: "M8 an unanswered downgrade leaves the lease held", run: unansweredDowngrade, needs: toSilence, can: shares},
	{name: "A4 another mode for the same owner is refused", run: otherModeRefused, can: shares},
}

// asShared returns h's grant as a downgrade asks for it.
func (h hold) asShared() driver.Grant {
	g := h.Grant
	g.Claims = slices.Clone(g.Claims)
	for i, c := range g.Claims {
		if c.Mode == driver.ModeExclusive {
			g.Claims[i].Mode = driver.ModeShared
		}
	}
	return g
}

// downgrade makes h's exclusive claims shared.
func (s *scene) downgrade(h hold) hold {
	s.Helper()
	called := time.Now()
	g := h.asShared()
	if err := h.st.Downgrade(s.ctx, g); err != nil {
		s.Fatalf("the downgrade of a lease in force: %v", err)
	}
	return hold{g, h.st, called, time.Now()}
}

// downgraded downgrades twice, as after a lost reply. The exclusive lease is then over.
func downgraded(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	before := s.take(a, long, driver.Exclusive(key))
	h := s.downgrade(s.downgrade(before))
	s.mustRenew(h)
	s.isLost(s.renew(a, before.Grant))
	s.noRoom(b, key, driver.Exclusive(key))
	reader := s.take(b, long, driver.Shared(key))
	s.rising([]uint64{h.Token, reader.Token})
	s.mustRelease(h)
	s.isLost(s.renew(a, h.Grant))
	s.noRoom(a, key, driver.Exclusive(key))
	s.mustRelease(reader)
	s.mustRelease(s.take(a, long, driver.Exclusive(key)))
}

// downgradeLetsReadersIn: a downgrade admits waiting readers, even past a writer, as the end of
// an exclusive lease does.
func downgradeLetsReadersIn(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Exclusive(key))
	writer := s.queue(b, long, driver.Exclusive(key))
	readers := []*waiter{s.queue(c, long, driver.Shared(key)), s.queue(b, long, driver.Shared(key))}
	h = s.downgrade(h)
	for _, w := range readers {
		r := w.granted(s.Late)
		s.mustRenew(r)
		s.mustRelease(r)
	}
	writer.waits()
	s.noRoom(c, key, driver.Shared(key)) // behind the writer
	s.mustRelease(h)
	writer.granted(s.Late)
}

// downgradeWithoutGap: others ask all the time, without waiting, while the key goes from
// exclusive to shared. They must never get it exclusively.
func downgradeWithoutGap(s *scene) {
	a, others := s.open(), []driver.Store{s.open(), s.open()}
	for range 5 {
		key := s.key()
		h := s.take(a, long, driver.Exclusive(key))
		held := h.Token
		stop := s.meanwhile(3*len(others), func(i int) {
			if g, err := s.acquire(s.ctx, others[i%len(others)], s.ask(s.TTL, driver.Exclusive(key))); err == nil {
				s.Errorf("a writer got in during the downgrade, with token %d after %d", g.Token, held)
			}
		})
		time.Sleep(settle)
		func() {
			defer stop() // even if the downgrade ends the test
			h = s.downgrade(h)
			time.Sleep(settle)
		}()
		s.mustRenew(h)
		s.mustRelease(h)
	}
}

// downgradedLasts: a downgrade gives a full TTL, and no more.
func downgradedLasts(s *scene) {
	a, b := s.open(), s.open()
	s.inTime(s.TTL, func(ttl time.Duration) (tooLate bool) {
		h := s.take(a, ttl, driver.Exclusive(s.key()))
		w := s.follow(b, h.Claims...)
		time.Sleep(ttl / 2)
		called, returned, tooLate := s.timed(h.called, ttl, func() error { return a.Downgrade(s.ctx, h.asShared()) })
		if tooLate {
			return true
		}
		next := w.granted(ttl + 2*s.Late)
		s.lasted("the downgraded lease", ttl, called, returned, next.returned)
		return false
	})
}

// unansweredDowngrade: it leaves the lease in one of the two modes. The engine repeats it
// instead of a renewal, and the holder works on.
func unansweredDowngrade(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		key := s.key()
		h := s.take(b, long, driver.Exclusive(key))
		s.during(q, b, func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.TTL/2)
			defer cancel()
			s.isUnavailable(b.Downgrade(ctx, h.asShared()))
		})
		// The store may take a moment to undo other requests that were not answered.
		for end := time.Now().Add(s.TTL); time.Now().Before(end); time.Sleep(settle) {
			s.noRoom(a, key, driver.Exclusive(key))
		}
		h = s.downgrade(h)
		s.mustRenew(h)
		s.mustRelease(h)
	}
}

// otherModeRefused: an owner that asks for another mode is refused, even if there is room. An
// upgrade of two readers would deadlock. The error is neither contention nor an outage, and
// nothing changes.
func otherModeRefused(s *scene) {
	a, b := s.open(), s.open()
	for _, wait := range []bool{false, true} {
		key := s.key()
		writer := s.take(a, long, driver.Exclusive(key))
		_, err := a.Acquire(s.ctx, driver.Request{Owner: writer.Owner, Claims: []driver.Claim{driver.Shared(key)}, TTL: writer.TTL, Wait: wait})
		if !errors.Is(err, driver.ErrWouldDeadlock) {
			s.Errorf("want a *driver.DeadlockError for a writer that asks to read, got %v", err)
		}
		s.mustRenew(writer)
		s.mustRelease(writer)
		h := s.take(a, long, driver.Shared(key))
		req := driver.Request{Owner: h.Owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: h.TTL, Wait: wait}
		ctx, cancel := context.WithTimeout(s.ctx, s.Late)
		_, err = a.Acquire(ctx, req)
		cancel()
		switch {
		case !errors.Is(err, driver.ErrWouldDeadlock):
			s.Errorf("want a *driver.DeadlockError for a reader that asks to write, got %v", err)
		case errors.Is(err, driver.ErrHeld), errors.Is(err, driver.ErrUnavailable):
			s.Errorf("the error looks like another: %v", err)
		}
		s.mustRenew(h)
		reader := s.take(b, long, driver.Shared(key)) // nobody is in line
		s.mustRelease(reader)
		s.mustRelease(h)
		s.mustRelease(s.take(b, long, driver.Exclusive(key)))
	}
}

// downgradedSet: what was shared or a permit before stays so, with a full TTL.
func downgradedSet(s *scene) {
	a, b := s.open(), s.open()
	k := s.keys(3)
	h := s.take(a, s.TTL, driver.Exclusive(k[0]), driver.Permit(k[1], 1), driver.Shared(k[2]))
	h.TTL = s.ttls.Nearest(long)
	h = s.downgrade(h)
	s.mustRelease(s.take(b, long, driver.Shared(k[0])))
	time.Sleep(s.TTL + s.Early)
	s.noRoom(b, k[0], driver.Exclusive(k[0]))
	s.noRoom(b, k[1], driver.Permit(k[1], 1))
	s.noRoom(b, k[2], driver.Exclusive(k[2]))
	s.mustRenew(h)
	s.mustRelease(h)
	s.mustRelease(s.take(b, long, exclusives(k...)...))
}

// downgradeRevivesNothing: the lease has ended, and the key is free or somebody else's.
func downgradeRevivesNothing(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	released := s.take(a, long, driver.Exclusive(key))
	s.mustRelease(released)
	expired := s.take(a, s.TTL, driver.Exclusive(key))
	next := s.freed(b, key, expired.returned.Add(s.TTL+s.Late))
	for _, h := range []hold{released, expired} {
		s.isLost(a.Downgrade(s.ctx, h.asShared()))
	}
	s.mustRenew(next)
	s.noRoom(a, key, driver.Shared(key))
	s.mustRelease(next)
	s.isLost(a.Downgrade(s.ctx, next.asShared()))
	s.mustRelease(s.take(b, long, driver.Exclusive(key)))
}

// downgradeOfNothing: by others, with another token, and of a permit.
func downgradeOfNothing(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.take(a, long, driver.Exclusive(key))
	others := s.imposters(h.asShared(), s.owner())
	other := h.asShared()
	other.Token++
	for _, g := range append(others, other) {
		s.isLost(b.Downgrade(s.ctx, g))
	}
	s.noRoom(b, key, driver.Shared(key))
	s.mustRelease(h)
	permit := s.take(a, long, driver.Permit(key, 2))
	g := permit.Grant
	g.Claims = []driver.Claim{driver.Shared(key)}
	s.isLost(a.Downgrade(s.ctx, g))
	s.mustRenew(permit)
	s.mustRelease(permit)
}
