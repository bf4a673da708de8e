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

// Two members of a group do not exclude each other, and who has the group
// excludes them both.
func ExampleUnder() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New(), core.WithMaxWait(time.Second))
	defer eng.Close(ctx)

	one, _ := eng.AcquireAll(ctx, core.Under("group:7", "member:42"))
	two, err := eng.AcquireAll(ctx, core.Under("group:7", "member:43"))
	fmt.Println("another member:", err)

	_, err = eng.TryAcquire(ctx, "group:7")
	fmt.Println("the whole group is held:", errors.Is(err, core.ErrHeld))

	one.Release(ctx)
	two.Release(ctx)
	whole, err := eng.TryAcquire(ctx, "group:7")
	fmt.Println("the whole group:", err)
	whole.Release(ctx)
	// Output:
	// another member: <nil>
	// the whole group is held: true
	// the whole group: <nil>
}

// The same with a key that has its levels in it, as a rule's template makes it.
func ExampleWithHierarchy() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)

	_ = eng.Do(ctx, "group:7/member:42", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		for _, c := range lease.Claims() {
			fmt.Println(c.Mode, c.Key)
		}
		return nil
	}, core.WithHierarchy())
	// Output:
	// shared group:7
	// exclusive group:7/member:42
}

// Those who read share the key, and who writes has it alone.
func ExampleWithShared() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)

	one, _ := eng.Acquire(ctx, "price-list", core.WithShared())
	two, err := eng.TryAcquire(ctx, "price-list", core.WithShared())
	fmt.Println("a second reader:", err)
	_, err = eng.TryAcquire(ctx, "price-list")
	fmt.Println("a writer:", err)
	one.Release(ctx)
	two.Release(ctx)
	// Output:
	// a second reader: <nil>
	// a writer: keyturn: "price-list" is held by another
}

// At most two exports at a time, in the whole fleet.
func ExampleWithPermits() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New())
	defer eng.Close(ctx)

	for range 3 {
		_, err := eng.TryAcquire(ctx, "export", core.WithPermits(2))
		fmt.Println(err)
	}
	leases := 0
	for info, err := range eng.List(ctx, "export") {
		if err == nil {
			leases += len(info.Holders)
		}
	}
	fmt.Println(leases, "are running")
	shutdown, cancel := context.WithCancel(ctx)
	cancel() // the examples' leases are not waited for
	_ = eng.Close(shutdown)
	// Output:
	// <nil>
	// <nil>
	// keyturn: "export" is held by another
	// 2 are running
}

// A crashed holder of a status lock, which is held for milliseconds, blocks its
// user for two seconds instead of thirty.
func ExampleWithAdaptiveTTL() {
	ctx := context.Background()
	eng, _ := core.New(memstore.New(), core.WithAdaptiveTTL(2*time.Second, 30*time.Second))
	defer eng.Close(ctx)

	ttl := func() (d time.Duration) {
		_ = eng.Do(ctx, "user:status:42", func(ctx context.Context) error {
			lease, _ := core.LeaseFrom(ctx)
			d = lease.TTL()
			return nil
		}, core.WithRule("status"))
		return d
	}
	fmt.Println("at first:", ttl())
	for range 100 {
		ttl()
	}
	fmt.Println("when holds were seen:", ttl())
	// Output:
	// at first: 30s
	// when holds were seen: 2s
}
