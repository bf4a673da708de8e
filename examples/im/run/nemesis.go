package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/examples/im/fleet"
	"github.com/keyturn/keyturn/examples/im/node"
)

const (
	// leastPause is the least time between two faults: in less, nothing would be served.
	leastPause = 250 * time.Millisecond
	// aftermath is the time in which a fault may still be felt: the leases of a process that was killed
	// run out after 10 s, and clients wait for them.
	aftermath = 15 * time.Second
)

// nemesis does to a fleet what happens to fleets.
type nemesis struct {
	fleet   *fleet.Fleet
	redis   *anyredis.Redis
	here    *node.Node
	victims []*member // that are killed and started again

	struck  atomic.Int64 // how many faults
	busy    atomic.Bool  // one is under way
	lastEnd atomic.Pointer[time.Time]
}

// recent reports whether there is a fault, or was one a short time ago.
func (n *nemesis) recent() bool {
	last := n.lastEnd.Load()
	return n.busy.Load() || last != nil && time.Since(*last) < aftermath
}

// strike makes a fault after each pause, until ctx ends. Each fault comes as often as any other. An error
// says that something did not come back, so the soak is over.
func (n *nemesis) strike(ctx context.Context, pause time.Duration) error {
	faults := n.faults()
	for i := 0; ; i++ {
		Rest(ctx, max(pause, leastPause))
		if ctx.Err() != nil {
			return nil
		}
		if i %= len(faults); i == 0 {
			rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		}
		n.busy.Store(true)
		// What was begun is ended, even if the time is over: the end of the soak needs the Redis.
		err := faults[i](context.WithoutCancel(ctx))
		end := time.Now()
		n.lastEnd.Store(&end)
		n.busy.Store(false)
		n.struck.Add(1)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
}

// faults returns what can be done to this fleet. Nothing is done to connections of the data alone, and no
// process is paused for longer than its leases live: the data has no fence.
func (n *nemesis) faults() []func(context.Context) error {
	faults := []func(context.Context) error{
		n.redis.Restart,
		func(ctx context.Context) error {
			pause := 500 + rand.IntN(1500)
			n.command(ctx, "client", "pause", pause, "all")
			Rest(ctx, time.Duration(pause)*time.Millisecond)
			return nil
		},
		func(ctx context.Context) error { n.command(ctx, "script", "flush"); return nil },
		func(ctx context.Context) error { n.command(ctx, "client", "kill", "type", "pubsub"); return nil },
	}
	for _, m := range n.victims {
		faults = append(faults, func(ctx context.Context) error {
			if err := n.fleet.Kill(m.pid); err != nil {
				return err
			}
			Rest(ctx, rand.N(time.Second)) // until somebody notices
			return m.start(ctx, n.fleet)
		})
	}
	return faults
}

// command sends a command to Redis. An embedded one knows few of those that are sent here.
func (n *nemesis) command(ctx context.Context, args ...any) { _ = n.here.Redis.Do(ctx, args...).Err() }
