// Package work is what the processes of a history do: they take and free locks, and write down
// what they were granted.
package work

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof/history"
)

// TTL is that of the leases, unless they are extended.
const TTL = 400 * time.Millisecond

const (
	permits = 3
	workers = 6 // of a process
)

// Worker is what the goroutines of a process have in common.
type Worker struct {
	Engine   *core.Engine
	Recorder *history.Recorder
}

// Work goes on until ctx ends.
func (w *Worker) Work(ctx context.Context) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				if rand.N(20) == 0 {
					w.force(ctx)
				} else {
					w.once(ctx)
				}
			}
		})
	}
	all.Wait()
}

// want picks claims: of x and y exclusively only, so that they can be checked for
// more.
func want() []driver.Claim {
	return [][]driver.Claim{
		{driver.Exclusive("x")},
		{driver.Exclusive("x")},
		{driver.Exclusive("y")},
		{driver.Exclusive("x"), driver.Exclusive("y")},
		{driver.Exclusive("books")},
		{driver.Exclusive("books"), driver.Exclusive("pages")},
		{driver.Shared("books")},
		{driver.Shared("books")},
		{driver.Shared("books"), driver.Exclusive("y")},
		{driver.Permit("gate", permits)},
		{driver.Permit("gate", permits)},
	}[rand.N(11)]
}

// sharable: what they may be downgraded to leaves x and y alone.
func sharable(claims []driver.Claim) bool { return claims[0] == driver.Exclusive("books") }

// once is one acquisition. Each event is noted when what it tells is true for
// sure: a section from after the answer until before the release.
func (w *Worker) once(ctx context.Context) {
	claims := want()
	nr := w.Recorder.Ask(claims)
	lease, err := w.Engine.AcquireAll(ctx, claims)
	if err != nil {
		return
	}
	note := func(what history.What) {
		w.Recorder.Note(history.Event{
			Nr: nr, What: what, At: w.Recorder.Clock(), Until: w.Recorder.Mono(lease.Deadline()),
			Owner: lease.Owner(), Token: lease.Token(), TTL: lease.TTL(),
		})
	}
	note(history.Given)
	for range rand.N(3) {
		sleep := rand.N(4 * time.Millisecond)
		if rand.N(20) == 0 {
			sleep = TTL / 2 // so that it is renewed, or lost in a pause
		}
		time.Sleep(sleep)
		switch n := rand.N(10); {
		case n == 0:
			w.extend(ctx, nr, lease)
		case n < 5 && sharable(claims):
			note(history.Sharing)
			_ = lease.Downgrade(ctx) // whatever came of it, nobody counts on more
		}
		if lease.Err() != nil {
			break
		}
		note(history.Holding)
	}
	note(history.Returning)
	err = lease.Release(context.Background())
	switch {
	case err == nil:
		note(history.Returned)
	case errors.Is(err, driver.ErrLeaseLost):
		note(history.Gone)
	default:
		note(history.Unsure)
	}
}

// extend asks for a longer or a shorter term. Until it is answered either of both
// may be in force, so the lease is certain until the end of the shorter one.
func (w *Worker) extend(ctx context.Context, nr int, lease *core.Lease) {
	ttl := TTL/2 + rand.N(3*TTL/2)
	until, now := w.Recorder.Mono(lease.Deadline()), w.Recorder.Clock()
	w.Recorder.Note(history.Event{Nr: nr, What: history.Extending, At: now, Until: min(until, now+int64(ttl)), TTL: ttl})
	_ = lease.Extend(ctx, ttl) // whatever came of it, the deadline says so
}

// force takes a key away from its holders.
func (w *Worker) force(ctx context.Context) {
	key := []string{"x", "y", "books", "pages", "gate"}[rand.N(5)]
	nr := w.Recorder.Force(key)
	holders, err := w.Engine.ForceRelease(ctx, key, "a test")
	e := history.Event{Nr: nr, What: history.Forced, At: w.Recorder.Clock()}
	if err != nil {
		e.What = history.Unsure
	}
	for _, h := range holders {
		e.Owners = append(e.Owners, h.Owner)
	}
	w.Recorder.Note(e)
}
