package drivertest

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

var versionChecks = []check{
	{name: "L9 the greatest version so far is returned", run: versionGreatest},
	{name: "L9 versions never fall behind what was returned", run: versionsRise},
	{name: "L10 versions are numbers of 64 bits", run: versionNumbers},
	{name: "L10 version 0 only asks", run: versionAsks},
	{name: "L11 a version lasts its retention", run: versionLasts},
	{name: "L12 leases and records keep out of it", run: versionAlone},
	{name: "L13 versions after Close", run: versionClosed},
	{name: "L13 versions in an outage", run: versionOutage, needs: toSilence},
}

// raise tells st a version. The answer must be want.
func (s *scene) raise(st driver.Store, key string, version, want uint64) {
	s.Helper()
	newest, err := st.AdvanceVersion(s.ctx, key, version, long)
	if err != nil || newest != want {
		s.Fatalf("AdvanceVersion to %d is answered with %d, %v; want %d", version, newest, err, want)
	}
}

// versionGreatest: several processes raise, and each key counts by itself.
func versionGreatest(s *scene) {
	a, b := s.open(), s.open()
	key, other := s.key(), s.key()
	s.raise(a, key, 5, 5)
	s.raise(b, key, 3, 5)
	s.raise(b, key, 5, 5)
	s.raise(a, other, 4, 4)
	s.raise(b, key, 7, 7)
	s.raise(a, key, 6, 7)
	s.raise(b, other, 1, 4)
}

// versionsRise lets many raise one key at once. A store that reads and then writes in two steps
// would let a smaller version overwrite a greater one.
func versionsRise(s *scene) {
	key := s.key()
	var highest atomic.Uint64
	s.crowd(3, 3, 40, func(st driver.Store, _ int) bool {
		var last uint64
		for _, version := range []uint64{highest.Add(1), 1} {
			newest, err := st.AdvanceVersion(s.ctx, key, version, long)
			if err != nil || newest < version || newest < last {
				s.Errorf("AdvanceVersion to %d is answered with %d, %v, after %d", version, newest, err, last)
				return false
			}
			last = newest
		}
		return true
	})
	s.raise(s.open(), key, 0, highest.Load())
}

// versionNumbers uses numbers with which texts, signed numbers and floating point go wrong.
func versionNumbers(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	rising := []uint64{
		1, 2, 9, 10, 99, 100, 1 << 31, 1<<32 + 1, 1 << 53, 1<<53 + 1, 1763683200000000001, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64,
	}
	for _, v := range rising {
		s.raise(a, key, v, v)
		s.raise(b, key, v-1, v)
	}
}

func versionAsks(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.raise(a, key, 0, 0)
	s.raise(b, key, 0, 0)
	s.raise(b, key, 1, 1)
	s.raise(a, key, 0, 1)
}

// versionLasts: a version lasts for the retention of the last call that raised it or tried to.
func versionLasts(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.raise(a, key, 5, 5)
	called := time.Now()
	if newest, err := a.AdvanceVersion(s.ctx, key, 2, s.TTL); err != nil || newest != 5 {
		s.Fatalf("AdvanceVersion: %d, %v", newest, err)
	}
	returned := time.Now()
	s.ends("the version", s.TTL, called, returned, func() bool {
		newest, err := b.AdvanceVersion(s.ctx, key, 0, long)
		if err != nil {
			s.Fatalf("AdvanceVersion: %v", err)
		}
		return newest == 0
	})
	s.raise(b, key, 1, 1)
}

// versionAlone: the version does not depend on who holds the key, or on records.
func versionAlone(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	h := s.lock(a, key, long)
	s.raise(b, key, 3, 3)
	s.held(b, key)
	s.complete(h, someRecord, long)
	s.raise(b, key, 2, 3)
	s.recorded(a, key, someRecord)
	other := s.key()
	s.raise(a, other, 3, 3)
	s.mustRelease(s.lock(b, other, long)) // there is no record
	s.raise(b, other, 2, 3)
}

func versionClosed(s *scene) {
	a := s.open()
	if err := a.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	_, err := a.AdvanceVersion(s.ctx, s.key(), 1, long)
	s.isClosed(err)
}

// versionOutage: the error comes within the bound, and versions returned before the outage
// count after it.
func versionOutage(s *scene) {
	for _, q := range s.silences() {
		a, b := s.open(), s.open()
		key := s.key()
		s.raise(b, key, 3, 3)
		s.during(q, b, func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.TTL)
			defer cancel()
			called := time.Now()
			_, err := b.AdvanceVersion(ctx, key, 5, long)
			s.isUnavailable(err)
			if over := time.Since(called) - s.TTL; over > s.soon(s.Late) {
				s.Errorf("the error came %v after the context's end", over)
			}
		})
		s.raise(a, key, 6, 6)
		s.raise(b, key, 5, 6)
	}
}

// forgetVersion: Forget drops the version together with the record.
func forgetVersion(s *scene) {
	a, b := s.open(), s.open()
	key := s.key()
	s.raise(a, key, 5, 5)
	s.forget(b, key, true)
	s.forget(a, key, false)
	s.raise(b, key, 1, 1)
}
