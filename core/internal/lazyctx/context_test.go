package lazyctx_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/internal/lazyctx"
	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

type key struct{}

// ends are the ways in which a context may end, and what it says then.
var ends = map[string]struct {
	end  func(cancelParent context.CancelCauseFunc, closeEngine context.CancelFunc, b *lazyctx.Context)
	want error
}{
	"its own cancel":   {func(_ context.CancelCauseFunc, _ context.CancelFunc, b *lazyctx.Context) { b.Cancel() }, context.Canceled},
	"its parent":       {func(p context.CancelCauseFunc, _ context.CancelFunc, _ *lazyctx.Context) { p(errDown) }, context.Canceled},
	"the engine":       {func(_ context.CancelCauseFunc, e context.CancelFunc, _ *lazyctx.Context) { e() }, context.Canceled},
	"its own deadline": {func(context.CancelCauseFunc, context.CancelFunc, *lazyctx.Context) { time.Sleep(time.Second) }, context.DeadlineExceeded},
}

var errDown = errors.New("down")

// TestEnds looks at each end in three ways: by somebody who waits, by
// somebody who asks, and by a context derived from it.
func TestEnds(t *testing.T) {
	for name, tc := range ends {
		for _, watched := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithCancelCause(context.WithValue(context.Background(), key{}, "v"))
				defer cancelParent(nil)
				ending, closeEngine := context.WithCancel(context.Background())
				defer closeEngine()
				b := lazyctx.Bounded(parent, ending, time.Second)
				b.Start(time.Now()) // where nobody waits, too
				defer b.Cancel()
				if b.Err() != nil || b.Value(key{}) != "v" {
					t.Fatalf("%s: at the beginning: %v, %v", name, b.Err(), b.Value(key{}))
				}
				var child context.Context
				var called atomic.Int32
				if watched {
					var cancel context.CancelFunc
					child, cancel = context.WithCancel(b)
					defer cancel()
					context.AfterFunc(b, func() { called.Add(1) })
					context.AfterFunc(b, func() { called.Add(100) })() // taken back
				}
				tc.end(cancelParent, closeEngine, b)
				synctest.Wait()
				check(t, errors.Is(b.Err(), tc.want), "%s: %v, want %v", name, b.Err(), tc.want)
				select {
				case <-b.Done():
				default:
					t.Errorf("%s: who waits is not told", name)
				}
				if watched && (!errors.Is(child.Err(), tc.want) || called.Load() != 1) {
					t.Errorf("%s: derived: %v, want %v; %d calls", name, child.Err(), tc.want, called.Load())
				}
				check(t, name != "its parent" || errors.Is(context.Cause(b), errDown), "the cause is lost: %v", context.Cause(b))
				late := make(chan struct{})
				stop := b.AfterFunc(func() { close(late) })
				<-late
				check(t, !stop(), "%s: AfterFunc after the end was stopped", name)
			})
		}
	}
}

func TestDeadline(t *testing.T) {
	now := time.Now()
	soon, cancel := context.WithDeadline(context.Background(), now.Add(time.Minute))
	defer cancel()
	for name, tc := range map[string]struct {
		b    *lazyctx.Context
		want time.Duration
	}{
		"none":           {lazyctx.Bounded(context.Background(), nil, 0), 0},
		"the parent's":   {lazyctx.Bounded(soon, nil, time.Hour), time.Minute},
		"only a parent":  {lazyctx.Bounded(soon, nil, 0), time.Minute},
		"its own":        {lazyctx.Bounded(soon, nil, time.Second), time.Second},
		"a detached one": {lazyctx.Detached(soon, time.Hour), time.Hour},
	} {
		tc.b.Start(now)
		at, ok := tc.b.Deadline()
		if ok != (tc.want != 0) || ok && !at.Equal(now.Add(tc.want)) {
			t.Errorf("%s: %v, %v", name, at, ok)
		}
	}
}

// registry is a parent that counts who waits for its end.
type registry struct {
	context.Context
	done chan struct{}
	n    int
}

func (r *registry) Done() <-chan struct{} { return r.done }

func (r *registry) AfterFunc(func()) (stop func() bool) {
	r.n++
	return func() bool { r.n--; return true }
}

// What a parent that lives for long knows of a context ends with that.
func TestEndTakesRegistrationsBack(t *testing.T) {
	parent := &registry{context.Background(), make(chan struct{}), 0}
	b := lazyctx.Bounded(parent, parent, time.Hour)
	b.Done()
	if parent.n != 2 {
		t.Fatalf("%d registrations, want one as the parent and one as what ends it", parent.n)
	}
	b.Cancel()
	check(t, parent.n == 0, "%d registrations are left", parent.n)
}
