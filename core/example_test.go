package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func ExampleEngine_Do() {
	eng, err := core.New(memstore.New(), core.WithTTL(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(context.Background())

	err = eng.Do(context.Background(), "user:status:42", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		fmt.Println("one at a time for", lease.Key())
		return nil
	})
	fmt.Println(err)
	// Output:
	// one at a time for user:status:42
	// <nil>
}

func ExampleEngine_Acquire() {
	eng, _ := core.New(memstore.New())
	ctx := context.Background()
	defer eng.Close(ctx)

	lease, err := eng.Acquire(ctx, "group:op:7", core.WithMaxWait(2*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	// Work under lease.Context(), and hand lease.Token() to the resource.
	fmt.Println(lease.Key(), lease.Token() > 0, lease.Context().Err())
	// Output: group:op:7 true <nil>
}

func ExampleEngine_TryAcquire() {
	eng, _ := core.New(memstore.New())
	ctx := context.Background()
	defer eng.Close(ctx)

	first, _ := eng.TryAcquire(ctx, "nightly-report")
	defer first.Release(ctx)
	_, err := eng.TryAcquire(ctx, "nightly-report")

	var held *core.HeldError
	if errors.As(err, &held) {
		holder, _ := driver.ParseOwner(held.Holder)
		fmt.Println(errors.Is(err, core.ErrHeld), holder.PID > 0)
	}
	// Output: true true
}

func ExampleEngine_Once() {
	eng, _ := core.New(memstore.New())
	ctx := context.Background()
	defer eng.Close(ctx)

	// Two gateways deliver the same message.
	for range 2 {
		out, err := eng.Once(ctx, "msg:8f2c", func(context.Context) ([]byte, error) {
			fmt.Println("processing")
			return []byte("stored as 17"), nil
		}, core.WithRetention(24*time.Hour))
		fmt.Println(out.Duplicate, string(out.Result), err)
	}
	// Output:
	// processing
	// false stored as 17 <nil>
	// true stored as 17 <nil>
}

// A fleet has one scheduler. Each process campaigns until it is told to stop.
func ExampleEngine_Lead() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	stop, cancel := context.WithCancel(context.Background()) // a program: signal.NotifyContext
	err := eng.Lead(stop, "leader:scheduler", func(ctx context.Context) error {
		l, _ := core.LeaseFrom(ctx)
		fmt.Println("leads", l.Key())
		cancel()     // SIGTERM
		<-ctx.Done() // it also ends before another process leads
		return nil
	})
	fmt.Println("stopped", err)
	// Output:
	// leads leader:scheduler
	// stopped <nil>
}

func ExampleOnce() {
	eng, _ := core.New(memstore.New())
	ctx := context.Background()
	defer eng.Close(ctx)

	type receipt struct{ Number int }
	for n := range 2 {
		r, err := core.Once(ctx, eng, "payment:9000", func(context.Context) (receipt, error) {
			return receipt{n}, nil // charge the card
		})
		fmt.Println(r.Number, err)
	}
	// Output:
	// 0 <nil>
	// 0 <nil>
}

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
