package core

import (
	"context"
	"sync"
	"time"
)

// bound is a context that ends with its parent, at a deadline, or with the
// engine, and that costs one allocation until somebody waits for its end. Most
// acquisitions and releases are answered before anybody does, and the contexts
// of package context pay for timers, channels and registrations in advance:
// half of what a lock in memory would cost.
type bound struct {
	values  context.Context
	parent  context.Context // the same, or nil: its end is not ours
	ending  context.Context // nil: it has no other end
	timeout time.Duration   // from when somebody first waits; 0: none

	mu       sync.Mutex
	deadline time.Time // zero: none, or nobody waits yet
	err      error
	watch    *watch // nil: nobody waits
}

// watch is who is told of the end, and what there is to stop then.
type watch struct {
	done  chan struct{}
	after []*after
	stops []func() bool
	room  [3]func() bool // as many of those as there are
}

// Deadline implements context.Context. Who asks for it is taken to wait.
func (b *bound) Deadline() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startLocked()
	var theirs time.Time
	var ok bool
	if b.parent != nil {
		theirs, ok = b.parent.Deadline()
	}
	switch {
	case b.deadline.IsZero():
		return theirs, ok
	case ok && theirs.Before(b.deadline):
		return theirs, true
	}
	return b.deadline, true
}

// startLocked has the time run. To look at the clock for those who are answered
// before they wait would cost more than their answer.
func (b *bound) startLocked() {
	if b.deadline.IsZero() && b.timeout > 0 {
		b.deadline = time.Now().Add(b.timeout)
	}
}

// Value implements context.Context.
func (b *bound) Value(key any) any { return b.values.Value(key) }

// Done implements context.Context. From the first call on something watches for
// the end.
func (b *bound) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch != nil {
		return b.watch.done
	}
	b.startLocked()
	w := &watch{done: make(chan struct{})}
	w.stops = w.room[:0]
	b.watch = w
	if b.lookLocked() != nil {
		close(w.done)
		return w.done
	}
	end := func() { _ = b.Err() }
	if b.parent != nil && b.parent.Done() != nil {
		w.stops = append(w.stops, context.AfterFunc(b.parent, end))
	}
	if b.ending != nil {
		w.stops = append(w.stops, context.AfterFunc(b.ending, end))
	}
	if !b.deadline.IsZero() {
		w.stops = append(w.stops, time.AfterFunc(time.Until(b.deadline), end).Stop)
	}
	return w.done
}

// start has the time run from that moment on, if it does not yet, and returns the
// deadline.
func (b *bound) start(at time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deadline.IsZero() && b.timeout > 0 {
		b.deadline = at.Add(b.timeout)
	}
	return b.deadline
}

// Err implements context.Context. It looks for itself, so it is right also
// where nobody watches.
func (b *bound) Err() error {
	b.mu.Lock()
	if b.err != nil || b.lookLocked() == nil {
		defer b.mu.Unlock()
		return b.err
	}
	return b.endedLocked()
}

// cancel ends the context, as the caller's "defer cancel()".
func (b *bound) cancel() {
	b.mu.Lock()
	if b.err != nil {
		b.mu.Unlock()
		return
	}
	b.err = context.Canceled
	_ = b.endedLocked()
}

// lookLocked sets err if the context has ended meanwhile.
func (b *bound) lookLocked() error {
	if b.err != nil {
		return b.err
	}
	if b.parent != nil {
		b.err = b.parent.Err()
	}
	switch {
	case b.err != nil:
	case b.ending != nil && b.ending.Err() != nil:
		b.err = context.Canceled
	case !b.deadline.IsZero() && !time.Now().Before(b.deadline):
		b.err = context.DeadlineExceeded
	}
	return b.err
}

// endedLocked tells those who wait, once, and gives mu back.
func (b *bound) endedLocked() error {
	err, w := b.err, b.watch
	if w == nil {
		b.mu.Unlock()
		return err
	}
	tell, stops := w.after, w.stops
	w.after, w.stops = nil, nil
	close(w.done)
	b.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	for _, a := range tell {
		go a.f()
	}
	return err
}

// after is a function to be called in a goroutine of its own at the end.
type after struct{ f func() }

// AfterFunc is what package context asks of a context that is not its own, or
// it would start a goroutine for every one derived from it.
func (b *bound) AfterFunc(f func()) (stop func() bool) {
	if b.Done(); b.Err() != nil {
		go f()
		return func() bool { return false }
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		go f()
		return func() bool { return false }
	}
	a := &after{f}
	b.watch.after = append(b.watch.after, a)
	return func() bool { return b.drop(a) }
}

// drop reports whether a was still to be called.
func (b *bound) drop(a *after) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.watch.after {
		if other == a {
			b.watch.after = append(b.watch.after[:i:i], b.watch.after[i+1:]...)
			return true
		}
	}
	return false
}
