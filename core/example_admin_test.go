package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func ExampleEngine_Inspect() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)

	lease, _ := eng.Acquire(ctx, "user:status:42", core.WithRule("status"))
	defer lease.Release(ctx)

	info, err := eng.Inspect(ctx, "user:status:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range info.Holders {
		owner, err := driver.ParseOwner(h.Owner) // an error: a foreign client's
		fmt.Println(info.Key, "is held", info.Mode, "by rule", h.Rule, owner.PID > 0, err)
	}
	// Output: user:status:42 is held exclusive by rule status true <nil>
}

func ExampleEngine_List() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)

	for _, key := range []string{"user:1", "user:2", "group:7"} {
		lease, _ := eng.Acquire(ctx, key)
		defer lease.Release(ctx)
	}
	n := 0
	for info, err := range eng.List(ctx, "user:") {
		if err != nil {
			fmt.Println(err)
			return
		}
		n += len(info.Holders)
	}
	fmt.Println(n, "held")
	// Output: 2 held
}

// A handler hangs, and its key with it. The operator who breaks the lock says why, and the
// handler learns it if it ever looks.
func ExampleEngine_ForceRelease() {
	ctx := context.Background()
	store := memstore.New()
	eng, _ := core.New(store, core.WithTTL(600*time.Millisecond))
	defer eng.Close(ctx)
	stuck, _ := eng.Acquire(ctx, "user:status:42")

	operator, _ := core.New(store.Peer(), core.WithLogger(slog.New(slog.DiscardHandler)))
	defer operator.Close(ctx)
	holders, err := operator.ForceRelease(ctx, "user:status:42", "ops: OPS-17, handler hangs")
	fmt.Println(len(holders), "holder,", err)

	<-stuck.Context().Done() // its next renewal finds out
	var lost *core.LeaseLostError
	if errors.As(context.Cause(stuck.Context()), &lost) {
		fmt.Println(lost.Reason, "by", lost.Detail)
	}
	fmt.Println(errors.Is(stuck.Release(ctx), core.ErrLeaseLost))
	// Output:
	// 1 holder, <nil>
	// forced by ops: OPS-17, handler hangs
	// true
}

// A job publishes the new state and goes on reading it, and lets others read.
func ExampleLease_Downgrade() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)

	lease, _ := eng.Acquire(ctx, "catalogue")
	defer lease.Release(ctx)
	// ... write ...
	fmt.Println(lease.Downgrade(ctx))

	reader, err := eng.TryAcquire(ctx, "catalogue", core.WithShared())
	fmt.Println(err)
	defer reader.Release(ctx)
	_, err = eng.TryAcquire(ctx, "catalogue")
	fmt.Println(errors.Is(err, core.ErrHeld))
	// Output:
	// <nil>
	// <nil>
	// true
}
