package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context is a [context.Context] that ends with its parent, at a deadline, or with another
// context. It allocates nothing but itself until somebody waits for its end. [Bounded] and
// [Detached] make one. It must not be copied.
type Context struct {
	values  context.Context
	parent  context.Context // the parent if its end matters, otherwise nil
	ending  context.Context // another context that ends this one; nil: none
	timeout time.Duration   // counts from the first wait; 0: none

	mu       sync.Mutex
	deadline time.Time // zero: none, or nobody waits yet
	err      error
	watch    *watch // nil: nobody waits
}

// watch says which functions to call at the end, and which registrations to stop then.
type watch struct {
	done  chan struct{}
	after []*after
	stops []func() bool
	room  [3]func() bool // room for all registrations that there can be
}

// Bounded returns a context that ends with parent, with ending (nil: none), and when the
// timeout is over, which counts from the first wait for the end (0: no timeout).
func Bounded(parent, ending context.Context, timeout time.Duration) *Context {
	return &Context{values: parent, parent: parent, ending: ending, timeout: timeout}
}

// Detached returns a context that has the values of parent, but ends only after the timeout or
// when it is canceled.
func Detached(parent context.Context, timeout time.Duration) *Context {
	return &Context{values: parent, timeout: timeout}
}

// Deadline implements context.Context. A caller that asks for the deadline counts as waiting.
func (c *Context) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked()
	var theirs time.Time
	var ok bool
	if c.parent != nil {
		theirs, ok = c.parent.Deadline()
	}
	switch {
	case c.deadline.IsZero():
		return theirs, ok
	case ok && theirs.Before(c.deadline):
		return theirs, true
	}
	return c.deadline, true
}

// startLocked starts the timeout. A caller that is answered before it waits never looks at the
// clock: that would cost more than its answer.
func (c *Context) startLocked() {
	if c.deadline.IsZero() && c.timeout > 0 {
		c.deadline = time.Now().Add(c.timeout)
	}
}

// Value implements context.Context.
func (c *Context) Value(key any) any { return c.values.Value(key) }

// Done implements context.Context. From the first call on, timers and registrations watch for
// the end. Its parent's mutex is taken while its own is held; a parent never waits for a child.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watch != nil {
		return c.watch.done
	}
	c.startLocked()
	w := &watch{done: make(chan struct{})}
	w.stops = w.room[:0]
	c.watch = w
	if c.lookLocked() != nil {
		close(w.done)
		return w.done
	}
	end := func() { _ = c.Err() }
	if c.parent != nil && c.parent.Done() != nil {
		w.stops = append(w.stops, context.AfterFunc(c.parent, end))
	}
	if c.ending != nil {
		w.stops = append(w.stops, context.AfterFunc(c.ending, end))
	}
	if !c.deadline.IsZero() {
		w.stops = append(w.stops, time.AfterFunc(time.Until(c.deadline), end).Stop)
	}
	return w.done
}

// Start starts the timeout at that moment, if it has not started.
func (c *Context) Start(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.IsZero() && c.timeout > 0 {
		c.deadline = at.Add(c.timeout)
	}
}

// Err implements context.Context. It checks for itself, so it is right even if nobody waits.
func (c *Context) Err() error {
	c.mu.Lock()
	if c.err != nil || c.lookLocked() == nil {
		defer c.mu.Unlock()
		return c.err
	}
	return c.endedLocked()
}

// Cancel ends the context, if it has not ended. As with any context, somebody must call it in
// the end.
func (c *Context) Cancel() {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = context.Canceled
	_ = c.endedLocked()
}

// lookLocked sets err if the context has ended by now.
func (c *Context) lookLocked() error {
	if c.err != nil {
		return c.err
	}
	if c.parent != nil {
		c.err = c.parent.Err()
	}
	switch {
	case c.err != nil:
	case c.ending != nil && c.ending.Err() != nil:
		c.err = context.Canceled
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// endedLocked tells those that wait, once, and unlocks mu.
func (c *Context) endedLocked() error {
	err, w := c.err, c.watch
	if w == nil {
		c.mu.Unlock()
		return err
	}
	tell, stops := w.after, w.stops
	w.after, w.stops = nil, nil
	close(w.done)
	c.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	for _, a := range tell {
		go a.f()
	}
	return err
}

// after is a function that is called on its own goroutine at the end.
type after struct{ f func() }

// AfterFunc is what package context looks for in a foreign context. Without this method it
// would start a goroutine for every context derived from c.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	if c.Done(); c.Err() != nil {
		go f()
		return func() bool { return false }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	a := &after{f}
	c.watch.after = append(c.watch.after, a)
	return func() bool { return c.drop(a) }
}

// drop removes a, and reports whether it had not been called yet.
func (c *Context) drop(a *after) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.watch.after {
		if other == a {
			c.watch.after = append(c.watch.after[:i:i], c.watch.after[i+1:]...)
			return true
		}
	}
	return false
}
