package core

import (
	"context"
	"sync"
)

// leaseContext ends the lease's context with the lease, and tells those that want to
// know of the lease's own end alone ([Lease.Attach]).
type leaseContext struct {
	place  chain // what the context carries
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	over  bool  // the lease is
	cause error // of that; never written again
	tell  map[*func(error)]struct{}
}

// begin gives a new lease its context, and the place in the chain that this has.
func (l *Lease) begin(parent context.Context) {
	l.own.place = chain{Context: parent, lease: l, next: chainOf(parent)}
	l.ctx, l.own.cancel = context.WithCancelCause(&l.own.place)
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
	tell := c.tell
	c.tell = nil
	c.mu.Unlock()
	c.cancel(cause)
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
