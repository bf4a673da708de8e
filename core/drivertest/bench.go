package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Bench measures the store behind h: what an operation costs its caller, and the throughput
// with many callers at once. One operation is an acquire and its release or, for "renew", the
// renewal of one lease.
func Bench(b *testing.B, h Harness) {
	st := h.New(b)
	h = h.withDefaults(st.Describe())
	_ = st.Close()
	b.Run("pair", func(b *testing.B) { benchPair(newScene(b, h, check{}), b) })
	b.Run("pairs in parallel", func(b *testing.B) { benchPairs(newScene(b, h, check{}), b) })
	b.Run("hot key", func(b *testing.B) { benchHotKey(newScene(b, h, check{}), b) })
	b.Run("readers", func(b *testing.B) { benchMode(newScene(b, h, check{claim: driver.Shared}), b) })
	b.Run("permits", func(b *testing.B) { benchMode(newScene(b, h, check{claim: permit(callers / 2)}), b) })
	b.Run("readers and writers", func(b *testing.B) { benchReadersAndWriters(newScene(b, h, check{}), b) })
	b.Run("set of four", func(b *testing.B) { benchSet(newScene(b, h, check{}), b) })
	b.Run("renew", func(b *testing.B) { benchRenew(newScene(b, h, check{}), b) })
}

// callers is how many goroutines per processor use the store at once.
const callers = 32

// pair acquires and releases once.
func (s *scene) pair(st driver.Store, req driver.Request) bool {
	// It does not use the scene's context, because a benchmark may take long.
	g, err := st.Acquire(context.Background(), req)
	if err == nil {
		err = st.Release(context.Background(), g)
	}
	if err != nil {
		s.Errorf("acquire and release: %v", err)
	}
	return err == nil
}

// benchPair has one caller and one key that nobody else wants.
func benchPair(s *scene, b *testing.B) {
	st, req := s.open(), s.request(s.key(), long)
	b.ReportAllocs()
	for b.Loop() {
		if !s.pair(st, req) {
			return
		}
	}
}

// benchPairs has many callers, each with a key of its own.
func benchPairs(s *scene, b *testing.B) {
	st := s.open()
	b.ReportAllocs()
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		req := s.request(s.key(), long)
		for pb.Next() && s.pair(st, req) {
		}
	})
}

// benchHotKey makes callers of two processes queue for one key.
func benchHotKey(s *scene, b *testing.B) {
	stores := []driver.Store{s.open(), s.open()}
	key := s.key()
	s.inParallel(b, stores, func(uint64) driver.Claim { return driver.Exclusive(key) })
}

// needs skips what the store does not list.
func (s *scene) needs(b *testing.B, st driver.Store, can driver.Description) {
	if why := (check{can: can}).beyond(st.Describe()); why != "" {
		b.Skip(why)
	}
}

// benchMode has callers of two processes that want one key in a mode in which many of them have
// it at a time.
func benchMode(s *scene, b *testing.B) {
	stores := []driver.Store{s.open(), s.open()}
	key := s.key()
	s.needs(b, stores[0], driver.Description{
		Shared: s.claim(key).Mode == driver.ModeShared, Permits: s.claim(key).Mode == driver.ModePermit,
	})
	s.inParallel(b, stores, func(uint64) driver.Claim { return s.claim(key) })
}

// benchReadersAndWriters has one writer in ten callers.
func benchReadersAndWriters(s *scene, b *testing.B) {
	stores := []driver.Store{s.open(), s.open()}
	s.needs(b, stores[0], shares)
	key := s.key()
	s.inParallel(b, stores, func(n uint64) driver.Claim {
		if n%10 == 0 {
			return driver.Exclusive(key)
		}
		return driver.Shared(key)
	})
}

// inParallel runs many callers. The nth of them waits for claim(n).
func (s *scene) inParallel(b *testing.B, stores []driver.Store, claim func(n uint64) driver.Claim) {
	b.ReportAllocs()
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		n := s.n.Add(1)
		req := s.ask(long, claim(n))
		req.Wait = true
		st := stores[n%2]
		for pb.Next() && s.pair(st, req) {
		}
	})
}

// benchSet has one caller and four keys that nobody else wants.
func benchSet(s *scene, b *testing.B) {
	st := s.open()
	s.needs(b, st, inSets)
	req := s.ask(long, exclusives(s.keys(4)...)...)
	b.ReportAllocs()
	for b.Loop() {
		if !s.pair(st, req) {
			return
		}
	}
}

// benchRenew renews a thousand leases per call, as a watchdog does.
func benchRenew(s *scene, b *testing.B) {
	const leases = 1000
	st := s.open()
	grants := make([]driver.Grant, leases)
	for i := range grants {
		g, err := st.Acquire(s.ctx, s.request(s.key(), time.Hour))
		if err != nil {
			b.Fatal(err)
		}
		grants[i] = g
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= leases {
		for _, err := range st.Renew(context.Background(), grants[:min(left, leases)]) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	for _, g := range grants {
		_ = st.Release(s.ctx, g)
	}
}
