package memstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func Example() {
	ctx := context.Background()
	eng, err := core.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)

	err = eng.Do(ctx, "user:status:42", func(context.Context) error {
		_, err := eng.TryAcquire(ctx, "user:status:42")
		fmt.Println("meanwhile:", errors.Is(err, driver.ErrHeld))
		return nil
	})
	fmt.Println("afterwards:", err)
	// Output:
	// meanwhile: true
	// afterwards: <nil>
}

// Readers share a key, and a set takes several keys or none.
func Example_modes() {
	ctx := context.Background()
	eng, err := core.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)

	one, _ := eng.AcquireAll(ctx, []driver.Claim{driver.Shared("catalog")})
	two, _ := eng.AcquireAll(ctx, []driver.Claim{driver.Shared("catalog"), driver.Exclusive("order:7"), driver.Permit("printer", 2)})
	_, err = eng.TryAcquire(ctx, "catalog")
	fmt.Println("a writer:", errors.Is(err, driver.ErrHeld))

	info, _ := eng.Inspect(ctx, "catalog")
	fmt.Println(len(info.Holders), "leases,", info.Mode)
	fmt.Println(one.Release(ctx), two.Release(ctx))
	// Output:
	// a writer: true
	// 2 leases, shared
	// <nil> <nil>
}

// Two engines on one memory exclude each other as two processes do.
func ExampleStore_Peer() {
	ctx := context.Background()
	store := memstore.New()
	one, _ := core.New(store)
	two, _ := core.New(store.Peer())
	defer two.Close(ctx)

	lease, _ := one.Acquire(ctx, "group:op:7")
	_, err := two.TryAcquire(ctx, "group:op:7")
	fmt.Println(errors.Is(err, driver.ErrHeld))

	lease.Release(ctx)
	one.Close(ctx)
	err = two.Do(ctx, "group:op:7", func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
