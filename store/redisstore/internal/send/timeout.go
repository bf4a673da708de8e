package send

import (
	"context"
	"time"
)

// timeout makes contexts that end some time after their start, whatever becomes of
// others. One of context.WithTimeout would have the caller's told of it, which in
// turn has all above it told, and takes longer than the request itself. A timeout
// is for one request at a time.
type timeout struct {
	timer *time.Timer // nil: to be made, with end
	end   chan struct{}
}

// start returns a context with the values of ctx that ends after d. Its deadline is
// the bound of a dial; its end, that of a wait for a connection.
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
		t.timer = nil // its channel is closed, or about to be
	}
}

// timeoutContext has nothing but its values from its Context.
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
