package core_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// BenchmarkDoParallel is how the engine scales over processors where nobody waits for
// anybody: run it with -cpu 1,2,4. Each goroutine has a key of its own, so what they
// share is the engine's books. The control is the least that an in-process lock by key
// needs: a map of mutexes in shards.
func BenchmarkDoParallel(b *testing.B) {
	for _, workload := range []struct {
		name string
		do   func(b *testing.B) func(key string) error
	}{
		{"keyturn", func(b *testing.B) func(string) error {
			eng, err := core.New(memstore.New())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = eng.Close(context.Background()) })
			ctx := context.Background()
			return func(key string) error { return eng.Do(ctx, key, func(context.Context) error { return nil }) }
		}},
		{"mutexes", func(*testing.B) func(string) error {
			locks := mutexes{seed: maphash.MakeSeed()}
			return func(key string) error { locks.do(key, func() {}); return nil }
		}},
	} {
		b.Run(workload.name, func(b *testing.B) {
			do := workload.do(b)
			var callers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				key := fmt.Sprint("key ", callers.Add(1))
				for pb.Next() {
					if err := do(key); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// mutexes locks by key, and keeps only those that somebody holds or waits for.
type mutexes struct {
	seed   maphash.Seed
	shards [64]struct {
		mu    sync.Mutex
		byKey map[string]*countedMutex
		_     [64]byte
	}
}

type countedMutex struct {
	mu    sync.Mutex
	users int
}

func (m *mutexes) do(key string, fn func()) {
	s := &m.shards[maphash.String(m.seed, key)%64]
	s.mu.Lock()
	c := s.byKey[key]
	if c == nil {
		if s.byKey == nil {
			s.byKey = make(map[string]*countedMutex)
		}
		c = &countedMutex{}
		s.byKey[key] = c
	}
	c.users++
	s.mu.Unlock()
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(s.byKey, key)
		}
	}()
	fn()
}
