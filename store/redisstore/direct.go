package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// direct sends a request on its caller's own goroutine. To hand it to another one
// and back takes the scheduler longer than a server next door takes to answer.
// But whoever sends it can't leave before go-redis does, whatever its context
// says. So that is for a request that would leave alone, to a server that has
// answered the last one, and with little patience; should that not do, it is
// sent again in the ordinary way, as go-redis itself would.
type direct struct {
	client *redis.Client // the caller's, with a short timeout; nil: there is none
	well   atomic.Bool   // the last request was answered
	fuse   fuse
}

// directPatience is how long each of go-redis' attempts may take.
const directPatience = 50 * time.Millisecond

// directBound is how long all of them may take, with what comes before: a wait for
// a connection, and making one. To a machine that is gone that takes 5 s a try.
const directBound = 2 * directPatience

// fuse makes contexts that end some time after they were lit, whatever becomes of
// others. One of context.WithTimeout would have the caller's told of it, which in
// turn has all above it told, and takes longer than the request itself. Only one
// burns at a time.
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

// impatient is client for direct requests; nil where there are none.
func impatient(client redis.UniversalClient) *redis.Client {
	c, ok := client.(*redis.Client)
	if !ok {
		return nil
	}
	patience := directPatience
	if d := c.Options().ReadTimeout; d > 0 {
		patience = min(patience, d)
	}
	return c.WithTimeout(patience)
}

// sendDirectly reports whether r has a reply, or an error of the server's.
func (s *Store) sendDirectly(ctx context.Context, r *request) bool {
	if s.direct.client == nil || !s.direct.well.Load() || !r.fits() || ctx.Err() != nil || !s.departures.alone() {
		return false
	}
	defer s.departures.back()
	ctx = s.direct.fuse.light(ctx, directBound)
	defer s.direct.fuse.putOut()
	if r.isPlain() {
		return s.answered(s.sendTogether(ctx, s.direct.client, r.alone()))
	}
	r.value, r.err = r.call(ctx, s.direct.client).Result()
	return s.answered(r.err)
}

// answered takes in how a request ended, and says whether the server answered: an
// error that it reports is an answer, too.
func (s *Store) answered(err error) bool {
	var answer redis.Error
	well := err == nil || errors.As(err, &answer)
	if s.direct.well.Load() != well {
		s.direct.well.Store(well)
	}
	return well
}
