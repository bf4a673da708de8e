package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A lease's context ends once, with whatever ended it first, whether somebody
// looked at it before that, or not until long after.
func TestLeaseContextEndsOnce(t *testing.T) {
	errOwn := errors.New("the caller's reason")
	type end = func(*core.Lease, context.CancelCauseFunc)
	release := func(l *core.Lease, _ context.CancelCauseFunc) { _ = l.Release(bg) }
	cancel := func(_ *core.Lease, cancel context.CancelCauseFunc) { cancel(errOwn) }
	for _, tt := range []struct {
		name string
		ends []end
		want error
	}{
		{"released, then cancelled", []end{release, cancel}, core.ErrReleased},
		{"cancelled, then released", []end{cancel, release}, errOwn},
	} {
		for when, look := range map[string]func(context.Context){
			"looked at before": func(ctx context.Context) { ctx.Done() },
			"looked at after":  func(context.Context) {},
		} {
			t.Run(tt.name+", "+when, func(t *testing.T) {
				eng := newEngine(t, memstore.New())
				parent, end := context.WithCancelCause(bg)
				defer end(nil)
				l, err := eng.Acquire(parent, "k")
				must(t, err)
				ctx := l.Context()
				look(ctx)
				if ctx.Err() != nil {
					t.Error("over before its end:", ctx.Err())
				}
				for _, step := range tt.ends {
					step(l, end)
				}
				below, stop := context.WithCancel(ctx)
				defer stop()
				for _, c := range []context.Context{ctx, below} {
					<-c.Done()
					if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), tt.want) {
						t.Errorf("err %v, cause %v; want %v", c.Err(), context.Cause(c), tt.want)
					}
				}
				mustRelease(t, l)
			})
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

// A context that descends from a lease's context has its parent's deadline and values, and ends
// with it.
func TestWhatDescendsFromALeaseContext(t *testing.T) {
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
		if at, ok := ctx.Deadline(); !ok || !at.Equal(deadline) {
			t.Errorf("deadline %v, %v", at, ok)
		}
		if ctx.Value(key{}) != "v" {
			t.Errorf("value %v", ctx.Value(key{}))
		}
		if got, ok := core.LeaseFrom(ctx); !ok || got != l {
			t.Error("no lease")
		}
	}
	ended := make(chan struct{})
	context.AfterFunc(below, func() { close(ended) })
	mustRelease(t, l)
	<-ended
	if got := fmt.Sprint(l.Context()); got != "keyturn.Lease" {
		t.Errorf("printed as %q", got)
	}
}
