package redisstore

import (
	"context"
	"time"
)

// fuse makes contexts that end some time after they were lit, whatever becomes of
// others. One of context.WithTimeout would have the caller's told of it, which in
// turn has all above it told, and takes longer than the request itself. A fuse
// burns for one request at a time.
type fuse struct {
	timer *time.Timer // nil: to be made, with end
	end   chan struct{}
}

// light returns a context with the values of ctx that ends after d. Its deadline is
// the bound of a dial; its end, that of a wait for a connection.
func (f *fuse) light(ctx context.Context, d time.Duration) context.Context {
	if f.timer == nil {
		end := make(chan struct{})
		f.end, f.timer = end, time.AfterFunc(d, func() { close(end) })
	} else {
		f.timer.Reset(d)
	}
	return &burning{Context: ctx, deadline: time.Now().Add(d), end: f.end}
}

func (f *fuse) putOut() {
	if !f.timer.Stop() {
		f.timer = nil // its channel is closed, or about to be
	}
}

// burning has nothing but its values from its Context.
type burning struct {
	context.Context
	deadline time.Time
	end      chan struct{}
}

func (b *burning) Deadline() (time.Time, bool) { return b.deadline, true }

func (b *burning) Done() <-chan struct{} { return b.end }

func (b *burning) Err() error {
	select {
	case <-b.end:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
