package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// BenchmarkDo is what the engine itself costs: over a store without a network,
// on a key that nobody else wants.
func BenchmarkDo(b *testing.B) {
	eng, err := core.New(memstore.New())
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := eng.Do(ctx, "k", func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHotKey has many goroutines of one process want one key.
func BenchmarkHotKey(b *testing.B) {
	eng, err := core.New(memstore.New())
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(context.Background())
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := eng.Do(context.Background(), "k", func(context.Context) error { return nil }); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLinger is a lease that is taken again and again by the process that kept it.
func BenchmarkLinger(b *testing.B) {
	eng, err := core.New(memstore.New(), core.WithLinger(time.Minute))
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := eng.Do(ctx, "k", func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
