package watchdog

import (
	"context"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Watchdog renews leases and declares leases lost. Make one with [New].
type Watchdog struct {
	config   Config
	clock    clock
	seed     maphash.Seed
	_        [64]byte // keeps what all callers read off the first shard's cache line
	shards   [shardCount]shard
	identity identity

	started atomic.Bool   // the goroutine was started
	wake    chan struct{} // something is due before the next look
	stop    chan struct{}
	running sync.WaitGroup
}

// shardCount is enough for 64 processors that do nothing but lock and unlock, and few enough to
// look at all shards.
const shardCount = 16

// Config is what a watchdog needs. Its functions are called while no mutex is held, except for
// Wall.
type Config struct {
	Store driver.Store
	// Identity is that of the store's Description, or nil.
	Identity func(ctx context.Context) (string, error)
	// Answered is called with each answer of the store about a lease with these claims.
	Answered func(claims []driver.Claim, err error)
	// Parts returns one text that names the parts of the store that claims depend on. Parts
	// fail independently, so each gets a batch of its own.
	Parts func(claims []driver.Claim) string
	// Called, if set, is called after each request to the store, with all errors joined.
	Called func(op string, asked time.Time, err error)
	// Slow is called when the renewal of so many leases took longer than half of the time that it
	// has. leases is [fewLeases] or more: a few may be late without a reason.
	Slow func(ctx context.Context, leases int, took, within time.Duration)
	// Replaced is called when another server answers, with the number of leases that are
	// renewed because of it.
	Replaced func(ctx context.Context, leases int)
	// Early is by how much leases are renewed before a third of their term is over, as a share of
	// a 24th of the term, from 0 to 1. The watchdogs of a fleet should have different ones.
	Early float64
	// Wall says what the wall clock showed at a moment at which this machine's showed t. It is
	// called with each look at the clocks, also under a mutex, so it must do nothing else. Nil: t.
	Wall func(t time.Time) time.Time
}

// New makes a watchdog. Its goroutine starts with the first lease.
func New(c Config) *Watchdog {
	d := &Watchdog{
		config: c,
		seed:   maphash.MakeSeed(),
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
	}
	for i := range d.shards {
		d.shards[i].dog = d
	}
	d.clock.started, d.clock.wall = time.Now(), c.Wall
	return d
}

// Close stops the goroutine and waits for the renewals under way. No lease may be started after
// it.
func (d *Watchdog) Close() {
	close(d.stop)
	d.running.Wait()
}

func (d *Watchdog) shardOf(key string) *shard {
	return &d.shards[maphash.String(d.seed, key)%shardCount]
}

// locked yields every shard, one after the other, each under its mutex.
func (d *Watchdog) locked() iter.Seq[*shard] {
	return func(yield func(*shard) bool) {
		for i := range d.shards {
			if !yieldLocked(&d.shards[i], yield) {
				return
			}
		}
	}
}

func yieldLocked(s *shard, yield func(*shard) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return yield(s)
}

// start starts the goroutine. drift is what the first lease read from the clocks.
func (d *Watchdog) start(drift time.Duration) {
	if !d.started.Load() && d.started.CompareAndSwap(false, true) {
		d.running.Go(func() { d.run(drift) })
	}
}

// poke makes the watchdog look at its leases again.
func (d *Watchdog) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // a look is due anyway
	}
}

func (d *Watchdog) run(drift time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-d.wake:
		case <-timer.C:
		}
		now := time.Now()
		before := drift
		drift = d.clock.drift(now)
		r := d.collect(now, drift-before > suspendNoticed)
		if d.config.Identity != nil && d.identity.due(now, r.leases) {
			d.running.Go(func() { d.recognize(ctx) })
		}
		for _, w := range r.lost { // all of them first: to tell of one may take longer than the others have
			w.holder.Stop(w.Err())
		}
		for _, batch := range d.batches(r.due) {
			d.running.Go(func() { d.renew(ctx, batch) })
		}
		if len(r.lost) > 0 {
			d.running.Go(r.tell)
		}
		timer.Reset(time.Duration(r.next - d.clock.moment(time.Now())))
	}
}

// round is the result of one look at all leases.
type round struct {
	now    time.Time
	at     moment // now
	due    []request
	lost   []*Watch
	leases int
	next   moment // when to look again
}

// tell tells the holders of the lost leases.
func (r round) tell() {
	for _, w := range r.lost {
		w.holder.Lost(w.Err())
	}
}

// collect looks at all leases. slept says that time passed that no timer saw: any lease may be
// over then, wherever it is in its heap.
func (d *Watchdog) collect(now time.Time, slept bool) round {
	at := d.clock.moment(now)
	r := round{now: now, at: at, next: at.add(idle)}
	for s := range d.locked() {
		if slept {
			s.expire(&r)
		}
		s.collect(&r)
	}
	for s := range d.locked() {
		if len(r.due) > 0 { // leases that were looked at before the first due one may join
			s.collect(&r)
		}
		r.leases += len(s.heap)
		r.next = min(r.next, s.rest(at))
	}
	return r
}
