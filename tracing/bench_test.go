package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
)

// BenchmarkDo shows what an observer adds to a lock that costs next to nothing itself.
func BenchmarkDo(b *testing.B) {
	for name, provider := range map[string]trace.TracerProvider{"not configured": nil, "not recorded": silentProvider{}} {
		b.Run(name, func(b *testing.B) {
			eng := newEngine(b, memstore.New(), core.WithHooks(newGlobal(b, tracing.WithTracerProvider(provider))))
			defer eng.Close(context.Background())
			handler := func(context.Context) error { return nil }
			withRule := core.WithRule(rule)
			b.ReportAllocs()
			for b.Loop() {
				if err := eng.Do(context.Background(), key, handler, withRule); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
