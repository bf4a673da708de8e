package drivertest

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var ledgerChecks = []check{
	{name: "L1 a record is returned, without a lease", run: recordReturned},
	{name: "L1 lookup and claim are one step", run: recordAtomic},
	{name: "L2 waiters get the record", run: recordServesWaiters},
	{name: "L2 waiters get the lease when there is no record", run: abandonServesWaiters, ordered: true},
	{name: "L4 a lost lease stores nothing", run: lostStoresNothing},
	{name: "L5 Complete is idempotent by owner", run: completeIdempotent},
	{name: "L6 a record lasts its retention", run: recordLasts},
	{name: "L6 records and versions can be kept for 100 years", run: keptForCentury},
	{name: "L7 records come back byte for byte", run: recordExact},
	{name: "L7 a record says that its result was not kept", run: recordWithoutResult},
}

// beginOnce asks for the record of key, or its lease, without waiting.
func (s *scene) beginOnce(st driver.Store, key string) (driver.Grant, *driver.Record) {
	s.Helper()
	g, rec, err := st.Begin(s.ctx, s.request(key, long))
	if err != nil {
		s.Fatalf("Begin: %v", err)
	}
	return g, rec
}

// recorded checks that key's execution is on record.
func (s *scene) recorded(st driver.Store, key string, want driver.Record) {
	s.Helper()
	g, rec := s.beginOnce(st, key)
	s.isRecord(g, rec, want)
}

func (s *scene) isRecord(g driver.Grant, rec *driver.Record, want driver.Record) {
	s.Helper()
	switch {
	case rec == nil:
		s.Fatalf("no record where one is in force; the grant is %+v", g)
	case !bytes.Equal(rec.Result, want.Result) || !bytes.Equal(rec.Fingerprint, want.Fingerprint) ||
		rec.ResultNotKept != want.ResultNotKept:
		s.Fatalf("the record has %.80q of %.80q, not kept: %v; want %.80q of %.80q, %v",
			rec.Result, rec.Fingerprint, rec.ResultNotKept, want.Result, want.Fingerprint, want.ResultNotKept)
	case g.Owner != "" || g.Claims != nil || g.TTL != 0 || g.Token != 0 || !g.Since.IsZero():
		s.Fatalf("a grant came with the record: %+v", g)
	}
}

// complete finishes the execution that h began.
func (s *scene) complete(h hold, rec driver.Record, retention time.Duration) {
	s.Helper()
	if err := h.st.Complete(s.ctx, h.Grant, rec, retention); err != nil {
		s.Fatalf("Complete of a lease in force: %v", err)
	}
}

var someRecord = driver.Record{Fingerprint: []byte("digest"), Result: []byte("result")}

// recordReturned: every process gets the record, and no lease with it. A lease would block the
// key until it runs out.
func recordReturned(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	s.held(b, key)
	s.complete(h, someRecord, long)
	for _, st := range []driver.Store{b, a, b} {
		s.recorded(st, key, someRecord)
	}
	s.isLostOnRelease(a, h.Grant) // Complete has released it
}

// recordAtomic lets many ask for the same few executions at once. Each execution must happen
// once.
func recordAtomic(s *scene) {
	const keys = 10
	var runs [keys]atomic.Int64
	names := make([]string, keys)
	for i := range names {
		names[i] = s.key()
	}
	s.crowd(3, 3, 1, func(st driver.Store, _ int) bool {
		for i, key := range names {
			req := s.request(key, long)
			req.Wait = true
			g, rec, err := st.Begin(s.ctx, req)
			if err != nil {
				s.Errorf("Begin: %v", err)
				return false
			}
			if rec != nil {
				continue
			}
			runs[i].Add(1)
			if err := st.Complete(s.ctx, g, someRecord, long); err != nil {
				s.Errorf("Complete: %v", err)
			}
		}
		return true
	})
	for i := range runs {
		if n := runs[i].Load(); n != 1 {
			s.Errorf("execution %d was begun %d times", i, n)
		}
	}
}

// enqueueBegin makes a new owner wait for key's record or lease.
func (s *scene) enqueueBegin(st driver.Store, key string) *waiter {
	s.Helper()
	return s.wait(s.ctx, st, s.request(key, long), st.Begin)
}

// recordServesWaiters: all waiting Begins get the record; otherwise each would run the
// execution again. A waiter in front of them that waits for the key itself, and gets it, must
// not keep the record from them.
func recordServesWaiters(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	first := s.enqueueBegin(b, key)
	other := s.wait(s.ctx, c, s.request(key, long), plain(c, func(ctx context.Context, st driver.Store, req driver.Request) (driver.Grant, error) {
		return st.Acquire(ctx, req)
	}))
	line := []*waiter{first, s.enqueueBegin(c, key), s.enqueueBegin(b, key), s.enqueueBegin(a, key)}
	s.complete(h, someRecord, long)
	for _, w := range line {
		g := w.granted(s.Late)
		s.isRecord(g.Grant, w.rec, someRecord)
	}
	other.granted(s.Late)
}

// abandonServesWaiters: after an execution that failed, the next waiter tries. The one behind
// it waits for the result of that.
func abandonServesWaiters(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	first, second := s.enqueueBegin(b, key), s.enqueueBegin(c, key)
	s.mustRelease(h)
	h = first.granted(s.Late)
	if first.rec != nil {
		s.Fatalf("a record of an execution that was given up: %+v", first.rec)
	}
	second.waits()
	s.complete(h, someRecord, long)
	g := second.granted(s.Late)
	s.isRecord(g.Grant, second.rec, someRecord)
}

// lostStoresNothing: an execution that lost its lease may have run twice, so its result must
// not become the record.
func lostStoresNothing(s *scene) {
	a, b, c := s.open(), s.open(), s.open()
	key := s.key()
	expired := s.lock(a, key, s.TTL)
	time.Sleep(time.Until(expired.returned.Add(s.TTL + s.Late)))
	s.isLost(a.Complete(s.ctx, expired.Grant, someRecord, long))
	taken := s.lock(b, key, long)
	for _, g := range s.imposters(taken.Grant, expired.Owner) {
		s.isLost(a.Complete(s.ctx, g, someRecord, long))
		s.held(c, key)
	}
	s.mustRelease(taken)
	s.lock(c, key, long) // fails if there is a record
}

// completeIdempotent: a repeated Complete succeeds for the owner that completed. For others the
// lease is lost.
func completeIdempotent(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	for range 3 {
		s.complete(h, someRecord, long)
	}
	s.recorded(b, key, someRecord)
	other := driver.Record{Result: []byte("another's")}
	for _, g := range s.imposters(h.Grant, s.owner()) {
		s.isLost(b.Complete(s.ctx, g, other, long))
	}
	s.recorded(b, key, someRecord)
}

// recordLasts tries retentions shorter and longer than the lease.
func recordLasts(s *scene) {
	a, b := s.open(), s.open()
	for _, lease := range []time.Duration{s.TTL / 2, long} {
		s.inTime(lease, func(ttl time.Duration) (tooLate bool) {
			retention := s.TTL
			if lease != long {
				retention = s.ttls.Nearest(2 * ttl)
			}
			key := s.key()
			h := s.lock(a, key, ttl)
			called, returned, tooLate := s.timed(h.called, ttl, func() error { return a.Complete(s.ctx, h.Grant, someRecord, retention) })
			if tooLate {
				return true
			}
			s.ends("the record", retention, called, returned, func() bool {
				_, rec := s.beginOnce(b, key)
				return rec == nil
			})
			return false
		})
	}
}

// keptForCentury: a sum with the present time that does not fit would be long over.
func keptForCentury(s *scene) {
	const century = 100 * 365 * 24 * time.Hour
	a, b := s.open(), s.open()
	key := s.key()
	s.complete(s.lock(a, key, long), someRecord, century)
	s.recorded(b, key, someRecord)
	if newest, err := a.AdvanceVersion(s.ctx, key, 5, century); err != nil || newest != 5 {
		s.Fatalf("AdvanceVersion: %d, %v", newest, err)
	}
	s.raise(b, key, 0, 5)
}

// recordExact uses bytes that text encodings, C strings and number formats ruin.
func recordExact(s *scene) {
	a, b := s.open(), s.open()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, rec := range []driver.Record{
		{},
		{Result: []byte{}, Fingerprint: []byte{}},
		{Result: every, Fingerprint: every},
		{Result: []byte{0}, Fingerprint: []byte("\xff\xfe")},
		{Result: []byte("9007199254740993"), Fingerprint: []byte("1e3")},
		{Result: []byte(" \r\n:,{}\"'\x00 "), Fingerprint: []byte(" :\n")},
		{Result: bytes.Repeat(every, 256)},
	} {
		key := s.key()
		given := driver.Record{Result: bytes.Clone(rec.Result), Fingerprint: bytes.Clone(rec.Fingerprint)}
		s.complete(s.lock(a, key, long), given, long)
		// The record must not change when callers change their bytes.
		clear(given.Result)
		s.recorded(b, key, rec)
		if _, got := s.beginOnce(a, key); got != nil {
			clear(got.Result)
		}
		s.recorded(a, key, rec)
	}
}

// recordWithoutResult: an empty result differs from one that was not kept.
func recordWithoutResult(s *scene) {
	a, b := s.open(), s.open()
	for _, rec := range []driver.Record{
		{ResultNotKept: true},
		{ResultNotKept: true, Fingerprint: []byte("!+:1")},
		{ResultNotKept: true, Fingerprint: []byte("digest"), Trace: "00-trace-01"},
	} {
		key := s.key()
		h := s.lock(a, key, long)
		first := s.enqueueBegin(b, key)
		for range 2 { // L5: the repetition says the same
			s.complete(h, rec, long)
		}
		g := first.granted(s.Late)
		s.isRecord(g.Grant, first.rec, rec)
		s.recorded(a, key, rec)
	}
}
