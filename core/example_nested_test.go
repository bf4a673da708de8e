package core_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A function that locks for itself can be called under the lock.
func ExampleEngine_Do_nested() {
	eng, _ := core.New(memstore.New())
	ctx := context.Background()
	defer eng.Close(ctx)

	setStatus := func(ctx context.Context, status string) error {
		return eng.Do(ctx, "user:42", func(ctx context.Context) error {
			fmt.Println(status)
			return core.AssertHeld(ctx, core.Exclusive("user:42"))
		})
	}
	err := eng.Do(ctx, "user:42", func(ctx context.Context) error {
		if _, err := eng.Once(ctx, "user:42", neverRuns); errors.Is(err, core.ErrWouldDeadlock) {
			fmt.Println("but not once within one at a time")
		}
		return setStatus(ctx, "away")
	})
	fmt.Println(errors.Join(err, setStatus(ctx, "online")))
	// Output:
	// but not once within one at a time
	// away
	// online
	// <nil>
}

func neverRuns(context.Context) ([]byte, error) { return nil, errors.New("it ran") }

// A worker that was running before gets the lease for one piece of work.
func ExampleLease_Attach() {
	eng, _ := core.New(memstore.New())
	ctx := context.Background()
	defer eng.Close(ctx)

	jobs, done := make(chan *core.Lease), make(chan error)
	go func() {
		for lease := range jobs {
			work, cancel := lease.Attach(context.Background())
			done <- core.AssertHeld(work, core.Exclusive("group:7"))
			cancel()
		}
	}()
	err := eng.Do(ctx, "group:7", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		jobs <- lease
		return <-done // the lease is held until the work is done
	})
	close(jobs)
	fmt.Println(err)
	// Output: <nil>
}
