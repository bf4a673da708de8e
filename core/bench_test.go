package core_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

func noWork(context.Context) error { return nil }

// benchEngine is over a store without a network, so a benchmark shows what the engine itself costs.
func benchEngine(b *testing.B, opts ...core.EngineOption) *core.Engine {
	b.ReportAllocs()
	return newEngine(b, memstore.New(), opts...)
}

// BenchmarkDo is on a key that nobody else wants.
func BenchmarkDo(b *testing.B) { benchmarkDo(b, benchEngine(b)) }

// BenchmarkLinger is a lease that is taken again and again by the process that kept it.
func BenchmarkLinger(b *testing.B) { benchmarkDo(b, benchEngine(b, core.WithLinger(time.Minute))) }

func benchmarkDo(b *testing.B, eng *core.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		must(b, eng.Do(ctx, "k", noWork))
	}
}

// BenchmarkHotKey has many goroutines of one process want one key.
func BenchmarkHotKey(b *testing.B) {
	b.SetParallelism(32)
	benchmarkParallel(b, func() string { return "k" })
}

// BenchmarkDoParallel is how the engine scales over processors where nobody waits for
// anybody: run it with -cpu 1,2,4. Each goroutine has a key of its own, so what they
// share is the engine's books.
func BenchmarkDoParallel(b *testing.B) {
	var callers atomic.Int64
	benchmarkParallel(b, func() string { return fmt.Sprint("key ", callers.Add(1)) })
}

func benchmarkParallel(b *testing.B, keyOfOne func() string) {
	eng := benchEngine(b)
	b.RunParallel(func(pb *testing.PB) {
		key := keyOfOne()
		for pb.Next() {
			if err := eng.Do(bg, key, noWork); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
