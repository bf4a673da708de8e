package send

import (
	"context"
	"time"
)

// timeout makes contexts that end some time after their start, and never with another context.
// A context of context.WithTimeout, without the caller's cancel, takes no more time, but five
// objects of the heap per request, where all of it has nine. A timeout is for one request at a time.
type timeout struct {
	timer *time.Timer // nil: start makes it, and end
	end   chan struct{}
}

// start returns a context with the values of ctx that ends after d. Its deadline bounds a dial.
// Its end bounds the wait for a connection.
func (t *timeout) start(ctx context.Context, d time.Duration) context.Context {
	if t.timer == nil {
		end := make(chan struct{})
		t.end, t.timer = end, time.AfterFunc(d, func() { close(end) })
	} else {
		t.timer.Reset(d)
	}
	return &timeoutContext{Context: ctx, deadline: time.Now().Add(d), end: t.end}
}

func (t *timeout) stop() {
	if !t.timer.Stop() {
		t.timer = nil // it has fired: its channel is closed, or will be in a moment
	}
}

// timeoutContext takes only the values from its Context.
type timeoutContext struct {
	context.Context
	deadline time.Time
	end      chan struct{}
}

func (c *timeoutContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *timeoutContext) Done() <-chan struct{} { return c.end }

func (c *timeoutContext) Err() error {
	select {
	case <-c.end:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
