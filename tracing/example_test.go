package tracing_test

import (
	"context"
	"fmt"
	"os"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/tracing"
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

// A secret that the fleet shares makes hashes of keys match across processes.
func ExampleWithKeySecret() {
	_, err := tracing.New(tracing.WithKeySecret([]byte(os.Getenv("KEYTURN_KEY_SECRET"))))
	fmt.Println(err)
	// Output:
	// keyturn: WithKeySecret(0 bytes): want 16 bytes or more
}
