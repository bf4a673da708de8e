package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var releaseChecks = []check{
	{name: "R1 a release frees the key", run: releaseFrees},
	{name: "R1 a release lets the next waiter in", run: releaseServes},
	{name: "R2 a lost lease is reported", run: releaseTellsLoss},
	{name: "R2 a lost lease is reported although the network broke meanwhile", run: releaseTellsLossLate, needs: toCut},
	{name: "R2 a release touches no other owner's lease", run: releaseKeepsOff, permit: true},
	{name: "R3 a release without an answer can be repeated", run: releaseRepeats, needs: toSilence},
	{name: "R4 a release wakes one waiter", run: releaseWakesOne, ordered: true},
}

// releaseFrees: a release frees the key for the next request, of this process or another.
func releaseFrees(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	for range 3 {
		s.mustRelease(s.lock(a, key, long))
		s.mustRelease(s.lock(b, key, long))
	}
}

// releaseServes: a release serves a waiter, whose lease is then as good as any.
func releaseServes(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	w := s.enqueue(b, key, long)
	s.mustRelease(h)
	h = w.granted(s.Late)
	s.mustRenew(h)
	s.mustRelease(h)
}

// releaseTellsLoss: a holder that learns here that its lease had ended knows that its work may
// have overlapped another's.
func releaseTellsLoss(s *scene) {
	a, b := s.open(), s.open()
	twice := s.lock(a, s.key(), long)
	s.mustRelease(twice)
	s.isLostOnRelease(a, twice.Grant)

	never := driver.Grant{Owner: s.owner(), Claims: []driver.Claim{s.claim(s.key())}, TTL: long, Token: 1}
	s.isLostOnRelease(a, never)

	key := s.key()
	expired := s.lock(a, key, s.TTL)
	time.Sleep(time.Until(expired.returned.Add(s.TTL + s.Late)))
	s.isLostOnRelease(a, expired.Grant)
	s.lock(b, key, long)
}

// releaseTellsLossLate: a store may repeat a release that had no answer. "Not yours" says then that
// the first attempt has ended the lease, except if the lease had run out before. A grant without
// Since does not say when that is.
func releaseTellsLossLate(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	old := s.lock(a, key, s.TTL)
	s.freed(b, key, old.returned.Add(s.TTL+s.Late))
	undated := old.Grant
	undated.Since = time.Time{}
	cut := func(testing.TB) { s.Cut(s.TB, a) }
	fallSilent, answer := cut, func(testing.TB) {}
	if s.Pause != nil && s.Resume != nil { // the releases are then under way when the network breaks
		fallSilent, answer = s.Pause, s.Resume
	}
	fallSilent(s.TB)
	errs := make(chan error, 2)
	for _, g := range []driver.Grant{old.Grant, undated} {
		go func() { errs <- a.Release(s.ctx, g) }()
	}
	time.Sleep(settle)
	cut(s.TB)
	answer(s.TB)
	s.Heal(s.TB, a)
	for range cap(errs) {
		if err := <-errs; err == nil {
			s.Errorf("the release of a lost lease succeeded")
		}
	}
}

// releaseKeepsOff: the previous holder, and owners with similar names, release a lease that is
// not theirs.
func releaseKeepsOff(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	old := s.lock(a, key, s.TTL)
	h := s.freed(b, key, old.returned.Add(s.TTL+s.Late))
	for _, g := range s.imposters(h.Grant, old.Owner) {
		s.isLostOnRelease(a, g)
		s.held(c, key)
	}
	s.mustRenew(h)
	s.mustRelease(h)
}

// releaseRepeats repeats a release that may or may not have been carried out.
func releaseRepeats(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		key := s.key()
		h := s.lock(a, key, long)
		s.during(q, a, func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.TTL)
			defer cancel()
			err := a.Release(ctx, h.Grant)
			if err == nil || errors.Is(err, driver.ErrLeaseLost) {
				s.Errorf("Release got %v from a backend that does not answer", err)
			}
		})
		if err := a.Release(s.ctx, h.Grant); err != nil && !errors.Is(err, driver.ErrLeaseLost) {
			s.Errorf("the repeated Release: %v", err)
		}
		s.lock(b, key, long)
	}
}

// releaseWakesOne counts how often the store tells a waiter again that it has to wait: each
// time, that waiter was woken for nothing. A store may check on its waiters now and then. If
// every release woke all of them, the count would be far greater.
func releaseWakesOne(s *scene) {
	const waiters = 8
	stores := []driver.Store{s.open(), s.open()}
	key := s.key()
	h := s.lock(stores[0], key, long)
	var line []*waiter
	for i := range waiters {
		line = append(line, s.enqueue(stores[i%2], key, long))
	}
	woken := func() (n int64) {
		for _, w := range line {
			n += w.told.Load()
		}
		return n
	}
	before := woken()
	for i, w := range line {
		s.mustRelease(h)
		h = w.granted(s.Late)
		time.Sleep(settle)
		for _, other := range line[i+1:] {
			other.waits()
		}
	}
	const herd = waiters * (waiters - 1) / 2
	if n := woken() - before; n > herd/2 {
		s.Errorf("%d releases woke %d waiters for nothing", waiters, n)
	}
}
