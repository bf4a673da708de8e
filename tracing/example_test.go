package tracing_test

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/trace"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
	"github.com/keyturn/keyturn/tracing/semconv"
)

func Example() {
	// Spans go to the global tracer provider, which the program sets up with an
	// SDK of its choice: otel.SetTracerProvider(...).
	hooks, err := tracing.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	eng, err := core.New(memstore.New(), core.WithHooks(hooks))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer eng.Close(ctx)

	err = eng.Do(ctx, "user:status:42", func(ctx context.Context) error {
		// Spans made from this ctx lie under keyturn.hold.
		fmt.Println("one at a time, and visible")
		return nil
	}, core.WithRule("set-status"))
	fmt.Println(err)
	// Output:
	// one at a time, and visible
	// <nil>
}

// The spans of an execution that is asked for twice.
func Example_once() {
	recorded := newRecorder() // in a program: an SDK's tracer provider
	hooks, _ := tracing.New(tracing.WithTracerProvider(recorded))
	eng, _ := core.New(memstore.New(), core.WithHooks(hooks))
	ctx := context.Background()
	defer eng.Close(ctx)

	for range 2 {
		_, err := eng.Once(ctx, "msg:8f2c", func(context.Context) ([]byte, error) { return nil, nil })
		if err != nil {
			fmt.Println(err)
		}
	}
	for _, s := range recorded.spans {
		if s.parent != (trace.SpanID{}) {
			fmt.Print("  ")
		}
		fmt.Println(s.name, s.attrs[semconv.OutcomeKey].AsString())
	}
	// Output:
	// keyturn.once executed
	//   keyturn.acquire granted
	//   keyturn.hold released
	// keyturn.once duplicate
	//   keyturn.acquire duplicate
}

// A secret that the fleet shares makes hashes of keys match across processes.
func ExampleWithKeySecret() {
	_, err := tracing.New(tracing.WithKeySecret([]byte(os.Getenv("KEYTURN_KEY_SECRET"))))
	fmt.Println(err)
	// Output:
	// keyturn: WithKeySecret(0 bytes): want 16 bytes or more
}

// Keys of one rule are shown as they are; those of all others stay hashed.
func ExampleWithRawKeysFor() {
	recorded := newRecorder() // in a program: an SDK's tracer provider
	hooks, _ := tracing.New(tracing.WithTracerProvider(recorded), tracing.WithRawKeysFor("nightly"))
	eng, _ := core.New(memstore.New(), core.WithHooks(hooks))
	ctx := context.Background()
	defer eng.Close(ctx)

	work := func(context.Context) error { return nil }
	_ = eng.Do(ctx, "report:daily", work, core.WithRule("nightly"))
	_ = eng.Do(ctx, "user:status:42", work, core.WithRule("set-status"))
	for _, s := range recorded.named(semconv.SpanHold) {
		fmt.Printf("%s %q %d\n", s.attrs[semconv.RuleKey].AsString(), s.attrs[semconv.KeyKey].AsString(), len(s.attrs[semconv.KeyHashKey].AsString()))
	}
	// Output:
	// nightly "report:daily" 0
	// set-status "" 16
}
