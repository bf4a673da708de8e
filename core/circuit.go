package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// circuit refuses acquisitions at once while the store is known to be out, so
// that an outage does not pile up callers who each wait for a timeout. (The
// circuit breaker of M. Nygard, "Release It!", 2007.)
//
// It opens when a request failed and nothing has been answered for a while:
// silence, not the number of failures, is what tells an outage from a broken
// connection that failed fifty requests at once, or from one sick shard among
// healthy ones. Requests sent before the last answer count for nothing, however
// late they fail. While it is open one request at a time is let through, the
// probe, with a pause after each; the first answer, whatever it says, closes it.
//
// An answered renewal or release keeps it closed, or one sick key would shut out
// the callers of all others. It does not close it: a server that is out of
// memory renews and releases, and does not grant.
type circuit struct {
	silence  time.Duration // 0: never opens
	log      *logger
	part     string // of the store, where it has several ([driver.Partitioned])
	listener func() // is told of each answer, to whatever request

	refusing atomic.Bool // open is set: most look no further
	mu       sync.Mutex
	answered time.Time     // when the store last answered
	silent   time.Time     // when the first request was sent of those that failed since
	failedAt time.Time     // when the last of them did; zero: none
	open     error         // what callers are told; nil: closed
	openedAt time.Time     // when that came to be
	refused  int           // callers, since then
	probing  int           // the probe under way, by number; 0: none
	probes   int           // how many there were
	probeAt  time.Time     // when there may be another
	pause    time.Duration // after the next probe that fails
}

// The pauses are short, because a refused caller may have no second try, and
// work that a rule runs unlocked in an outage should not do so for long after.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// probeTime is for how long a probe may hear nothing: the next one may find
// another connection, or another server.
const probeTime = 2 * time.Second

// fairTime is what a request must have had before a deadline cut it short for
// its failure to say anything about the store.
const fairTime = 100 * time.Millisecond

// ask sends one request, unless the circuit is open, and learns from its end, if that
// concerns it; nil: it does. That the store keeps it waiting is for the request's
// OnHeld to tell ([circuit.heard]).
func (c *circuit) ask(ctx context.Context, asked time.Time, req driver.Request, concerns func(error) bool, ask ask) (grant driver.Grant, rec *driver.Record, answered time.Time, err error) {
	probe, err := c.admit()
	if err != nil {
		return driver.Grant{}, nil, time.Now(), err
	}
	defer func() {
		answered = time.Now()
		c.learn(ctx, asked, answered, err, concerns == nil || concerns(err), probe)
	}()
	bounded := ctx
	if probe != 0 {
		var heard, cancel func()
		bounded, heard, cancel = untilHeard(ctx, probeTime)
		defer cancel()
		told := req.OnHeld
		req.OnHeld = func(held HeldError) {
			heard()
			if told != nil {
				told(held)
			}
		}
	}
	err = ErrPanicked // unless the store returns
	grant, rec, err = ask(bounded, req)
	return grant, rec, answered, err
}

// untilHeard gives a context that ends after so long, unless heard is called
// before: then it goes on as its parent does.
func untilHeard(ctx context.Context, d time.Duration) (_ context.Context, heard, cancel func()) {
	ctx, end := context.WithCancel(ctx)
	timer := time.AfterFunc(d, end)
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); end() }
}

// refuses returns the error for a caller who would only stand in line for a
// store that is out; nil if somebody should ask it.
func (c *circuit) refuses() error {
	if !c.refusing.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal()
}

func (c *circuit) refusal() error {
	if c.open != nil && (c.probing != 0 || time.Now().Before(c.probeAt)) {
		c.refused++
		return c.open
	}
	return nil
}

// admit is refuses for who is about to ask. The number is the probe's, if that
// is what it is: one that is told to wait closes the circuit and goes on, and
// must not be taken for a later one when it ends.
func (c *circuit) admit() (probe int, err error) {
	if !c.refusing.Load() {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(); err != nil {
		return 0, err
	}
	if c.open == nil {
		return 0, nil
	}
	c.probes++
	c.probing = c.probes
	return c.probing, nil
}

// learn takes in what came of a request, and the end of a probe: a grant, a record
// and a holder are answers; an outage is none, unless the caller had left no time for
// one. What does not concern this circuit says nothing.
func (c *circuit) learn(ctx context.Context, asked, answered time.Time, err error, concerned bool, probe int) {
	switch {
	case !concerned:
	case err == nil, errors.Is(err, ErrHeld):
		c.heard(ctx, answered)
	case !errors.Is(err, ErrUnavailable), errors.Is(ctx.Err(), context.Canceled):
	case hurried(ctx, asked):
	default:
		c.failed(ctx, asked, probe, err)
	}
	if probe == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe == c.probing {
		c.probing = 0
	}
}

// hurried says whether a request was cut short before its failure would have
// said anything about the store.
func hurried(ctx context.Context, asked time.Time) bool {
	return ctx.Err() != nil && time.Since(asked) < fairTime
}

// heard notes an answer, to the request with ctx.
func (c *circuit) heard(ctx context.Context, now time.Time) {
	c.mu.Lock()
	wasOpen, out, refused := c.open != nil, now.Sub(c.openedAt), c.refused
	c.answered, c.failedAt, c.open, c.probing, c.refused = now, time.Time{}, nil, 0, 0
	if wasOpen {
		c.refusing.Store(false)
	}
	c.mu.Unlock()
	if wasOpen {
		c.write(ctx, slog.LevelInfo, "keyturn: store answers again, circuit closed",
			"after", out.Round(time.Millisecond), "refused", refused)
	}
	c.listener()
}

// overheard notes the answer to a request that asked for no lease.
func (c *circuit) overheard() {
	c.mu.Lock()
	if c.open == nil {
		c.answered, c.failedAt = time.Now(), time.Time{}
	}
	c.mu.Unlock()
	c.listener()
}

// maybeBack has the next caller try the store, which has just answered a release that
// it did not answer before.
func (c *circuit) maybeBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != nil {
		c.probeAt = time.Now()
	}
}

// failed notes that a request found the store out.
func (c *circuit) failed(ctx context.Context, asked time.Time, probe int, err error) {
	if c.opens(asked, probe, err) {
		c.write(ctx, slog.LevelWarn, "keyturn: store is out, circuit open", "error", err)
	}
}

// write logs, with the part of the store that it is about.
func (c *circuit) write(ctx context.Context, level slog.Level, message string, args ...any) {
	if c.part != "" {
		args = append(args, "part", c.part)
	}
	c.log.write(ctx, level, message, args...)
}

// opens takes the failure in, and says whether the circuit opens for it.
func (c *circuit) opens(asked time.Time, probe int, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.open != nil && probe != 0 && probe == c.probing:
		c.probeAt = now.Add(c.pause)
		c.pause = min(2*c.pause, longestPause)
		return false
	case c.silence == 0, c.open != nil, asked.Before(c.answered):
		return false
	}
	// While nobody asks the store is not silent: two failures an hour apart are
	// two broken connections.
	if asked.Before(c.silent) || asked.Sub(c.failedAt) > c.silence {
		c.silent = asked
	}
	c.failedAt = now
	if now.Sub(c.silent) < c.silence {
		return false
	}
	// The cause as text only: it was another caller's request.
	c.open = &UnavailableError{Op: "acquire", Err: fmt.Errorf("%w: %v", ErrCircuitOpen, err)}
	c.refusing.Store(true)
	c.openedAt = now
	c.pause = firstPause
	c.probeAt = now.Add(c.pause)
	return true
}
