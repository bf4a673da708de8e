package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Bench measures the store behind h: what an operation costs the caller, and
// what goes through a store that many callers use at once. One operation is an
// acquire and its release, or, for "renew", the renewal of one lease.
func Bench(b *testing.B, h Harness) {
	h = h.withDefaults()
	b.Run("pair", func(b *testing.B) { benchPair(newScene(b, h, check{}), b) })
	b.Run("pairs in parallel", func(b *testing.B) { benchPairs(newScene(b, h, check{}), b) })
	b.Run("hot key", func(b *testing.B) { benchHotKey(newScene(b, h, check{}), b) })
	b.Run("renew", func(b *testing.B) { benchRenew(newScene(b, h, check{}), b) })
}

// callers is how many goroutines per processor use the store at once.
const callers = 32

// pair acquires and releases once.
func (s *scene) pair(st core.Store, req core.Request) bool {
	// Not the scene's context: a benchmark may take long.
	g, err := st.Acquire(context.Background(), req)
	if err == nil {
		err = st.Release(context.Background(), g)
	}
	if err != nil {
		s.Errorf("acquire and release: %v", err)
	}
	return err == nil
}

// benchPair has one caller and one key nobody else wants.
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

// benchHotKey has callers of two processes queue for one key, and the key go
// from one to the next.
func benchHotKey(s *scene, b *testing.B) {
	stores := []core.Store{s.open(), s.open()}
	key := s.key()
	b.ReportAllocs()
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		req := s.request(key, long)
		req.Wait = true
		st := stores[s.n.Add(1)%2]
		for pb.Next() && s.pair(st, req) {
		}
	})
}

// benchRenew renews a thousand leases per call, as a watchdog does.
func benchRenew(s *scene, b *testing.B) {
	const leases = 1000
	st := s.open()
	grants := make([]core.Grant, leases)
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
