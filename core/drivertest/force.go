package drivertest

import (
	"errors"

	"github.com/keyturn/keyturn/core/driver"
)

var forceChecks = []check{
	{name: "I7 a forced release tells who had the key, and its owner why", run: forceTells},
	{name: "I7 all readers are told", run: forceReaders, can: shares},
	{name: "I8 the first waiter gets the key, with a greater token", run: forceServes, ordered: true},
	{name: "I8 waiting readers, and the line after them", run: forcePhases, can: shares, ordered: true},
	{name: "I9 a set of which one key is forced is lost", run: forceSet, can: inSets},
	{name: "I9 what is left of a set is not shared, and can be released", run: forceSetShared, can: sharedSet},
	{name: "I11 the expected lease is ended, and its owner told why", run: forceExpected},
	{name: "I11 another's lease is left alone", run: forceNotExpected},
	{name: "I11 of several readers one is ended", run: forceOneReader, can: shares},
	{name: "I11 a permit that is ended makes room", run: forceOnePermit, can: permits},
	{name: "I10 a record that is forgotten makes room for the next", run: forget, can: records},
	{name: "I10 a version that is forgotten is raised anew", run: forgetVersion, can: records},
	{name: "I10 a lease is not touched", run: forgetKeepsLease, can: records},
}

func (s *scene) force(st driver.Store, key, reason string, only ...driver.Holder) []driver.Holder {
	s.Helper()
	had, err := st.ForceRelease(s.ctx, key, reason, only...)
	if err != nil {
		s.Fatalf("ForceRelease: %v", err)
	}
	return had
}

// isForced checks that err says that the lease was taken away, and why.
func (s *scene) isForced(err error, reason string) {
	s.Helper()
	s.isLost(err)
	var lost *driver.LeaseLostError
	if !errors.As(err, &lost) || lost.Reason != driver.LossForced || lost.Detail != reason {
		s.Fatalf("want a *driver.LeaseLostError with %q and %q, got %#v", driver.LossForced, reason, err)
	}
}

const someReason = `stuck: "see" ticket 7% | é`

// forceTells: one owner learns of it at its renewal, and another at its release. The key is
// free by then, and the first owner's lease cannot come back.
func forceTells(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	for _, renews := range []bool{true, false} {
		h := s.takeBy(a, note(s.request(key, long), "rule", "trace"))
		had := s.force(b, key, someReason)
		if len(had) != 1 || had[0].Owner != h.Owner || had[0].Token != h.Token || had[0].Rule != "rule" || had[0].Trace != "trace" {
			s.Errorf("the holder was said to be %+v, was %+v", had, h.Grant)
		}
		s.isFree(b, key)
		if renews {
			s.isForced(s.renew(a, h.Grant), someReason)
		} else {
			s.isForced(a.Release(s.ctx, h.Grant), someReason)
		}
		next := s.lock(b, key, long)
		s.rising([]uint64{h.Token, next.Token})
		s.isLost(s.renew(a, h.Grant))
		s.isLostOnRelease(a, h.Grant)
		s.mustRenew(next)
		s.mustRelease(next)
	}
}

// forceReaders forces a shared key. By the time its owners ask, another has the key.
func forceReaders(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	one, two := s.take(a, long, driver.Shared(key)), s.take(b, long, driver.Shared(key))
	had := s.force(a, key, someReason)
	if len(had) != 2 || had[0].Owner != one.Owner || had[1].Owner != two.Owner {
		s.Errorf("two readers were said to be %+v", had)
	}
	next := s.take(a, long, driver.Exclusive(key))
	s.rising([]uint64{one.Token, two.Token, next.Token})
	s.isForced(s.renew(a, one.Grant), someReason)
	s.isForced(b.Release(s.ctx, two.Grant), someReason)
	s.mustRenew(next)
}

func forceServes(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	first, second := s.enqueue(b, key, long), s.enqueue(c, key, long)
	s.force(c, key, someReason)
	next := first.granted(s.Late)
	second.waits()
	s.rising([]uint64{h.Token, next.Token})
	s.isForced(s.renew(a, h.Grant), someReason)
	s.mustRenew(next)
	s.mustRelease(next)
	second.granted(s.Late)
}

// forcePhases: a phase that was ended by force is a phase like any other.
func forcePhases(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.take(a, long, driver.Exclusive(key))
	writer := s.queue(b, long, driver.Exclusive(key))
	readers := []*waiter{s.queue(a, long, driver.Shared(key)), s.queue(b, long, driver.Shared(key))}
	s.force(b, key, someReason)
	for _, w := range readers {
		w.granted(s.Late)
	}
	writer.waits()
	s.force(b, key, someReason)
	writer.granted(s.Late)
}

// forceSetShared: the owner, which does not know yet, downgrades the set. It learns of its loss
// then, and releases the claim that is left.
func forceSetShared(s *scene) {
	a, b := s.open(), s.open()
	for i := range 2 {
		k := s.keys(2)
		h := s.take(a, long, exclusives(k...)...)
		s.force(b, k[i], someReason)
		s.isForced(a.Downgrade(s.ctx, h.asShared()), someReason)
		s.isFree(b, k[i])
		s.isLostOnRelease(a, h.Grant)
		s.mustRelease(s.take(b, long, exclusives(k...)...))
	}
}

// forceSet takes one key from a set. The others stay until the owner, who learns of it,
// releases them.
func forceSet(s *scene) {
	a, b := s.open(), s.open()
	for i := range 2 {
		k := s.keys(2)
		h := s.take(a, long, exclusives(k...)...)
		if had := s.force(b, k[i], someReason); len(had) != 1 || had[0].Owner != h.Owner {
			s.Errorf("the holder was said to be %+v, was %+v", had, h.Grant)
		}
		next := s.lock(b, k[i], long)
		s.isLost(s.renew(a, h.Grant))
		s.isLostOnRelease(a, h.Grant)
		s.lock(b, k[1-i], long)
		s.mustRenew(next)
	}
}

func (s *scene) forget(st driver.Store, key string, want bool) {
	s.Helper()
	had, err := st.Forget(s.ctx, key)
	if err != nil || had != want {
		s.Fatalf("Forget got %t, %v; whether there was a record: %t", had, err, want)
	}
}

func forget(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.forget(a, key, false)
	s.complete(s.lock(a, key, long), someRecord, long)
	s.recorded(b, key, someRecord)
	s.forget(b, key, true)
	s.forget(b, key, false)
	s.isFree(a, key)
	h := s.lock(a, key, long) // fails if there is a record
	s.complete(h, someRecord, long)
	s.recorded(b, key, someRecord)
}

// forgetKeepsLease: Forget leaves the lease of an execution that is under way, and its waiters.
func forgetKeepsLease(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	w := s.enqueueBegin(b, key)
	s.forget(b, key, false)
	s.mustRenew(h)
	w.waits()
	s.complete(h, someRecord, long)
	g := w.granted(s.Late)
	s.isRecord(g.Grant, w.rec, someRecord)
}
