package core

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ends are the ways in which a bound may end, and what it says then.
var ends = map[string]struct {
	end  func(cancelParent context.CancelCauseFunc, closeEngine context.CancelFunc, b *bound)
	want error
}{
	"its own cancel":   {func(_ context.CancelCauseFunc, _ context.CancelFunc, b *bound) { b.cancel() }, context.Canceled},
	"its parent":       {func(p context.CancelCauseFunc, _ context.CancelFunc, _ *bound) { p(errDown) }, context.Canceled},
	"the engine":       {func(_ context.CancelCauseFunc, e context.CancelFunc, _ *bound) { e() }, context.Canceled},
	"its own deadline": {func(context.CancelCauseFunc, context.CancelFunc, *bound) { time.Sleep(time.Second) }, context.DeadlineExceeded},
}

var errDown = errors.New("down")

// TestBoundEnds looks at each end in three ways: by somebody who waits, by
// somebody who asks, and by a context derived from it.
func TestBoundEnds(t *testing.T) {
	for name, tc := range ends {
		for _, watched := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithCancelCause(context.WithValue(context.Background(), chainKey{}, "v"))
				defer cancelParent(nil)
				ending, closeEngine := context.WithCancel(context.Background())
				defer closeEngine()
				b := &bound{values: parent, parent: parent, ending: ending, deadline: time.Now().Add(time.Second)}
				defer b.cancel()
				if b.Err() != nil || b.Value(chainKey{}) != "v" {
					t.Fatalf("%s: at the beginning: %v, %v", name, b.Err(), b.Value(chainKey{}))
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
				if !errors.Is(b.Err(), tc.want) {
					t.Errorf("%s: %v, want %v", name, b.Err(), tc.want)
				}
				select {
				case <-b.Done():
				default:
					t.Errorf("%s: who waits is not told", name)
				}
				if watched && (!errors.Is(child.Err(), tc.want) || called.Load() != 1) {
					t.Errorf("%s: derived: %v, want %v; %d calls", name, child.Err(), tc.want, called.Load())
				}
				if name == "its parent" && !errors.Is(context.Cause(b), errDown) {
					t.Errorf("the cause is lost: %v", context.Cause(b))
				}
				late := make(chan struct{})
				stop := b.AfterFunc(func() { close(late) })
				<-late
				if stop() {
					t.Errorf("%s: AfterFunc after the end was stopped", name)
				}
			})
		}
	}
}

func TestBoundDeadline(t *testing.T) {
	now := time.Now()
	soon, cancel := context.WithDeadline(context.Background(), now.Add(time.Minute))
	defer cancel()
	for name, tc := range map[string]struct {
		b    *bound
		want time.Duration
	}{
		"none":           {&bound{values: context.Background(), parent: context.Background()}, 0},
		"the parent's":   {&bound{values: soon, parent: soon, deadline: now.Add(time.Hour)}, time.Minute},
		"only a parent":  {&bound{values: soon, parent: soon}, time.Minute},
		"its own":        {&bound{values: soon, parent: soon, deadline: now.Add(time.Second)}, time.Second},
		"a detached one": {&bound{values: soon, deadline: now.Add(time.Hour)}, time.Hour},
	} {
		at, ok := tc.b.Deadline()
		if ok != (tc.want != 0) || ok && !at.Equal(now.Add(tc.want)) {
			t.Errorf("%s: %v, %v", name, at, ok)
		}
	}
}

// A detached one lives on when its caller has gone.
func TestBoundDetached(t *testing.T) {
	parent, cancel := context.WithCancel(context.WithValue(context.Background(), chainKey{}, "v"))
	b := &bound{values: parent, deadline: time.Now().Add(time.Hour)}
	cancel()
	select {
	case <-b.Done():
		t.Error("ended with its caller")
	default:
	}
	if b.Err() != nil || b.Value(chainKey{}) != "v" {
		t.Errorf("%v, %v", b.Err(), b.Value(chainKey{}))
	}
	b.cancel()
	<-b.Done()
}

func TestBoundCostsOneAllocation(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n := testing.AllocsPerRun(100, func() {
		b := &bound{values: parent, parent: parent, ending: parent, deadline: time.Now().Add(time.Hour)}
		_ = context.Context(b).Err()
		b.cancel()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
