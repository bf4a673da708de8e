package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// leaseContext is the context of a lease. It ends with the lease, and tells those that need to know
// of the lease's own end ([Lease.Attach]).
//
// Package context makes it only when somebody waits for its end. Many a short section never does. To
// register each with its parent, and to take it back, made a lock in memory take 16 % longer, one that is
// handed on 24 %, with three more allocations (BenchmarkDo and BenchmarkHotKey).
type leaseContext struct {
	place chain // its parent, and the lease that it carries
	made  atomic.Pointer[madeContext]

	mu    sync.Mutex
	cause error // why the lease ended, which is never written again; nil: it has not
	tell  map[*func(error)]struct{}
}

// madeContext is a leaseContext as package context makes it; nil: nobody has waited for its end.
type madeContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// unwatched stands for a context that ended with its lease before anybody waited for that.
var unwatched = new(madeContext)

// begin makes the context of a new lease, which is its place in the chain.
func (l *Lease) begin(parent context.Context) {
	l.own.place = chain{Context: parent, lease: l, next: chainOf(parent)}
	l.ctx = &l.own
	if l.terms.old != nil {
		l.followOld(l.terms.old)
	}
}

// Deadline implements context.Context.
func (c *leaseContext) Deadline() (time.Time, bool) { return c.place.Deadline() }

// Done implements context.Context.
func (c *leaseContext) Done() <-chan struct{} { return c.whole().Done() }

// Err implements context.Context.
func (c *leaseContext) Err() error {
	made := c.made.Load()
	if made == nil {
		err := c.place.Err()
		made = c.made.Load() // again: the lease may have ended before its parent did
		if err == nil || made == nil {
			return err
		}
	}
	if made == unwatched {
		return context.Canceled
	}
	return made.Err()
}

// Value implements context.Context. Here, package context looks for the cause of the end: so after
// the lease's end it is not the parent that answers.
func (c *leaseContext) Value(key any) any {
	switch {
	case key == (chainKey{}):
		return &c.place
	case c.made.Load() == nil:
		return c.place.Context.Value(key)
	}
	return c.whole().Value(key)
}

// String keeps fmt from reading what the mutex guards.
func (c *leaseContext) String() string { return "keyturn.Lease" }

// whole returns the context that package context has made of c, or makes now. It takes the parent's
// mutex while it holds its own, as package context does: a parent never waits for a child.
func (c *leaseContext) whole() *madeContext {
	if made := c.made.Load(); made != nil && made != unwatched {
		return made
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wholeLocked()
}

func (c *leaseContext) wholeLocked() *madeContext {
	made := c.made.Load()
	if made != nil && made != unwatched {
		return made
	}
	var parent context.Context = &c.place
	if made == unwatched { // it has ended, whatever has become of its parent since
		parent = context.WithoutCancel(parent)
	}
	ctx, cancel := context.WithCancelCause(parent)
	if made == unwatched {
		cancel(c.cause)
	}
	made = &madeContext{ctx, cancel}
	c.made.Store(made)
	return made
}

// end notes the lease's end. When it returns, everybody has been told; only then is the next
// holder admitted. The first end counts.
func (c *leaseContext) end(cause error) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	made, tell := c.made.Load(), c.tell
	switch {
	case made != nil:
	case c.place.Err() != nil: // it ended before, with its parent
		made = c.wholeLocked()
	default:
		c.made.Store(unwatched)
	}
	c.cause, c.tell = cause, nil
	c.mu.Unlock()
	if made != nil {
		made.cancel(cause)
	}
	for f := range tell {
		(*f)(cause)
	}
}

// onEnd calls f with the cause when the lease ends, at once if it has ended. forget cancels
// that.
func (c *leaseContext) onEnd(f func(cause error)) (forget func()) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		f(c.cause)
		return func() {}
	}
	defer c.mu.Unlock()
	if c.tell == nil {
		c.tell = make(map[*func(error)]struct{})
	}
	c.tell[&f] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.tell, &f)
	}
}
