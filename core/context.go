package core

import (
	"context"
	"sync"
	"time"
)

// leaseContext is how long a lease lasts: as a context, which descends from that
// of the acquisition and ends with it, too; and for those who want to be told of
// the lease's own end alone ([WithLease]).
//
// It becomes a context of package context when somebody waits for its end or looks
// for a value in it that is not the lease. Most work in memory is done before
// that, and what such a context registers with its parent, and takes back again,
// would be a good part of what a lock in memory costs.
type leaseContext struct {
	parent context.Context
	place  chain

	mu     sync.Mutex
	over   bool            // the lease is
	cause  error           // of that; never written again
	late   bool            // the parent had ended before, which counts for the context
	made   context.Context // nil: nobody has needed it yet
	cancel context.CancelCauseFunc
	tell   map[*func(error)]struct{}
}

// begin gives a new lease its context, and the place in the chain that this has.
func (l *Lease) begin(parent context.Context) {
	l.own.parent = parent
	l.own.place = chain{lease: l, next: chainOf(parent)}
	l.ctx = &l.own
}

// Deadline implements context.Context.
func (c *leaseContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done implements context.Context.
func (c *leaseContext) Done() <-chan struct{} { return c.whole().Done() }

// Err implements context.Context.
func (c *leaseContext) Err() error {
	c.mu.Lock()
	made, own := c.made, c.over && !c.late
	c.mu.Unlock()
	switch {
	case made != nil:
		return made.Err()
	case own:
		return context.Canceled
	}
	return c.parent.Err()
}

// Value implements context.Context. It is also where package context asks for the
// cause of the end.
func (c *leaseContext) Value(key any) any {
	if key == (chainKey{}) {
		return &c.place
	}
	return c.whole().Value(key)
}

// String keeps fmt from looking at what the mutex guards.
func (c *leaseContext) String() string { return "keyturn.Lease" }

// whole is the context that package context makes of it.
func (c *leaseContext) whole() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		return c.made
	}
	parent := c.parent
	own := c.over && !c.late
	if own { // whatever became of the parent since
		parent = context.WithoutCancel(parent)
	}
	c.made, c.cancel = context.WithCancelCause(parent)
	if own {
		c.cancel(c.cause)
	}
	return c.made
}

// end notes the lease's end, and has told everybody when it returns: the next one
// is let in after that. The first end counts.
func (c *leaseContext) end(cause error) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.over, c.cause = true, cause
	cancel, tell := c.cancel, c.tell
	if cancel == nil {
		c.late = c.parent.Err() != nil
	}
	c.tell = nil
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	for f := range tell {
		(*f)(cause)
	}
}

// onEnd has f told the cause when the lease ends, at once if it has. The function
// returned calls that off.
func (c *leaseContext) onEnd(f func(cause error)) (forget func()) {
	c.mu.Lock()
	if c.over {
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
