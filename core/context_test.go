package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A lease's context has its parent's deadline and values, and so has what descends from it. It ends with
// its parent, which does not end the lease.
func TestLeaseContext(t *testing.T) {
	type key struct{}
	eng := newEngine(t, memstore.New())
	deadline := time.Now().Add(time.Hour)
	parent, cancel := context.WithDeadline(context.WithValue(bg, key{}, "v"), deadline)
	defer cancel()
	l, err := eng.Acquire(parent, "k")
	must(t, err)
	below, stop := context.WithCancel(l.Context())
	defer stop()
	for _, ctx := range []context.Context{l.Context(), below} {
		at, _ := ctx.Deadline()
		if got, _ := core.LeaseFrom(ctx); got != l || !at.Equal(deadline) || ctx.Value(key{}) != "v" || ctx.Err() != nil {
			t.Errorf("lease %v, deadline %v, value %v, %v", got, at, ctx.Value(key{}), ctx.Err())
		}
	}
	if _, ok := core.LeaseFrom(parent); ok {
		t.Error("a lease where there is none")
	}
	wantEqual(t, "printed", fmt.Sprint(l.Context()), "keyturn.Lease")
	ended := make(chan struct{})
	context.AfterFunc(below, func() { close(ended) })
	cancel()
	<-ended
	check(t, l.Err() == nil && !isDone(l), "the lease ended with its context: %v", l.Err())
	wantOnly(t, errOf(eng.TryAcquire(bg, "k")), core.ErrHeld)
	mustRelease(t, l)
}

// A lease's context ends once, with whatever ended it first, whether somebody
// looked at it before that, or not until long after.
func TestLeaseContextEndsOnce(t *testing.T) {
	errOwn := errors.New("the caller's reason")
	for want, cancelled := range map[error]bool{core.ErrReleased: false, errOwn: true} {
		for _, looked := range []bool{true, false} {
			eng := newEngine(t, memstore.New())
			parent, cancel := context.WithCancelCause(bg)
			l, err := eng.Acquire(parent, "k")
			must(t, err)
			ctx := l.Context()
			if looked && ctx.Done() == nil || ctx.Err() != nil {
				t.Error("over before its end:", ctx.Err())
			}
			if cancelled {
				cancel(errOwn)
			}
			mustRelease(t, l)
			cancel(errOwn)
			below, stop := context.WithCancel(ctx)
			for _, c := range []context.Context{ctx, below} {
				<-c.Done()
				if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), want) {
					t.Errorf("looked at before: %v: err %v, cause %v; want %v", looked, c.Err(), context.Cause(c), want)
				}
			}
			stop()
		}
	}
}

// Whoever looks at a lease's context while the lease is released and its parent's time runs out sees
// one end, whichever it was, and its cause.
func TestLeaseContextEndsOnceForAll(t *testing.T) {
	eng := newEngine(t, memstore.New())
	causes := map[error]error{context.Canceled: core.ErrReleased, context.DeadlineExceeded: context.DeadlineExceeded}
	for i := range 500 {
		parent, cancel := context.WithTimeout(bg, time.Duration(i%50)*4*time.Microsecond)
		l, err := eng.Acquire(parent, "k")
		if err != nil { // the parent's time was over already
			cancel()
			continue
		}
		var looking sync.WaitGroup
		released := make(chan struct{})
		for range 2 {
			looking.Go(func() {
				ctx, first := l.Context(), error(nil)
				for first == nil {
					runtime.Gosched()
					first = ctx.Err()
				}
				<-released
				if err, cause := ctx.Err(), context.Cause(ctx); err != first || !errors.Is(cause, causes[first]) {
					t.Errorf("%v, then %v with cause %v", first, err, cause)
				}
				<-ctx.Done()
			})
		}
		time.Sleep(time.Duration(i%40) * time.Microsecond) // so that either may come first
		_ = l.Release(bg)
		close(released)
		looking.Wait()
		cancel()
	}
}

// A goroutine that outlived Do, and went on under its context, was told "context canceled" and not why.
func TestAnEndedWaitSaysWhy(t *testing.T) {
	eng := newEngine(t, memstore.New())
	var outlived context.Context
	must(t, eng.Do(bg, "k", func(ctx context.Context) error { outlived = ctx; return nil }))
	_, err := eng.Acquire(outlived, "other")
	wantOnly(t, err, context.Canceled)
	if !strings.Contains(err.Error(), core.ErrReleased.Error()) {
		t.Errorf("the error does not say why the context has ended: %v", err)
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if _, err := eng.Acquire(ended, "k"); err.Error() != `keyturn: waiting for "k": context canceled` {
		t.Error(err)
	}
}
