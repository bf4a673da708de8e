package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// who had an algorithm of its own: it took two replicas whose requests wait for each other's for a circle.
func TestWhoSeesNoCircleInAHealthyService(t *testing.T) {
	owner := func(pid, n int) string { return fmt.Sprintf("h/%d/1/t0abcd/%032x", pid, n) }
	key := func(name string, holder, waiter int) driver.LockInfo {
		n := 10*holder + waiter
		return driver.LockInfo{
			Key:     name,
			Holders: []driver.Holder{{Owner: owner(holder, n), Token: 7, Trace: traceparent(n)}},
			Waiters: []driver.Waiter{{Owner: owner(waiter, n+100), Trace: traceparent(n + 100), Waited: 3 * time.Second}},
		}
	}
	all, err := processesOf(seq([]driver.LockInfo{key("a", 1, 2), key("b", 2, 1)}, nil))
	if err != nil || len(all) != 2 || all[0].Circle != 0 || all[1].Circle != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// It also looked at nothing but processes, and so saw no deadlock of two requests of one process.
func TestWhoSeesADeadlockOfRequests(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	st, err := storeurl.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	type request struct{}
	eng, err := core.New(st, core.WithHooks(observe.Hooks{Trace: func(ctx context.Context) string { return ctx.Value(request{}).(string) }}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	defer func() {
		cancel()
		<-ended
		<-ended
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	both := make(chan struct{}, 2)
	for n, keys := range [][2]string{{"x", "y"}, {"y", "x"}} {
		go func() {
			defer func() { ended <- struct{}{} }()
			ctx := context.WithValue(ctx, request{}, traceparent(n+1))
			outer, err := eng.Acquire(ctx, keys[0])
			if err != nil {
				t.Error(err)
				return
			}
			both <- struct{}{}
			for len(both) < 2 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			if inner, err := eng.Acquire(ctx, keys[1]); err == nil {
				_ = inner.Release(ctx)
			}
			_ = outer.Release(context.WithoutCancel(ctx))
		}()
	}
	await(t, "who shows the circle", func() bool {
		out := command(t, "--store", store, "who", "--no-headers").ends(0).stdout.String()
		return strings.Count(out, "\n1\t") == 3 && strings.HasPrefix(out, "1\t")
	})
}
