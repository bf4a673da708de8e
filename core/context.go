package core

import (
	"context"
	"sync"
)

// leaseContext ends the lease's context with the lease. It also tells those that need to know
// of the lease's own end ([Lease.Attach]).
type leaseContext struct {
	place  chain // the context that carries the lease
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	cause error // why the lease ended, which is never written again; nil: it has not
	tell  map[*func(error)]struct{}
}

// begin makes the context of a new lease, which is its place in the chain.
func (l *Lease) begin(parent context.Context) {
	l.own.place = chain{Context: parent, lease: l, next: chainOf(parent)}
	l.ctx, l.own.cancel = context.WithCancelCause(&l.own.place)
}

// end notes the lease's end. When it returns, everybody has been told; only then is the next
// holder admitted. The first end counts.
func (c *leaseContext) end(cause error) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = cause
	tell := c.tell
	c.tell = nil
	c.mu.Unlock()
	c.cancel(cause)
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
