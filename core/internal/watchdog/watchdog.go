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

// Watchdog renews leases and declares the lost ones lost. Make one with [New].
//
// A lease is renewed at a third of its TTL, so that two renewals may fail
// before it is in danger; one that the store gave a shorter term at first, soon
// after the grant. Those due within the next eighth of a TTL go along in
// the same batch: a little early costs nothing, and batches stay few however
// the leases' beginnings are spread.
type Watchdog struct {
	config   Config
	clock    clock
	seed     maphash.Seed
	shards   [shardCount]shard
	identity identity

	started atomic.Bool   // the goroutine has been
	wake    chan struct{} // something is due before the next look
	stop    chan struct{}
	running sync.WaitGroup
}

// shardCount is enough for 64 processors that do nothing but lock and unlock, and few
// enough to look at all of them.
const shardCount = 16

// Config is what a watchdog needs. The functions are called without a mutex held.
type Config struct {
	Store driver.Store
	// Answered is told what the store said about a lease with these claims.
	Answered func(claims []driver.Claim, err error)
	// Parts names the parts of the store that claims depend on and that fail by
	// themselves, in one word. Renewals go to each in a batch of their own.
	Parts func(claims []driver.Claim) string
	// Called is told of each request to the store, with all errors joined; nil: nobody.
	Called func(op string, asked time.Time, err error)
	// Replaced is told that another server answers now, and how many leases are
	// renewed for that.
	Replaced func(ctx context.Context, leases int)
}

// New makes a watchdog, which starts its goroutine with the first lease.
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
	d.clock.started = time.Now()
	if s, ok := c.Store.(driver.Identified); ok {
		d.identity.ask = s.Identity
	}
	return d
}

// Close stops the goroutine and waits for renewals in flight. No lease may be started
// after it.
func (d *Watchdog) Close() {
	close(d.stop)
	d.running.Wait()
}

// Len is how many leases are watched.
func (d *Watchdog) Len() (n int) {
	for s := range d.locked() {
		n += len(s.heap)
	}
	return n
}

// NextLook is when the watchdog looks at its leases next, for tests.
func (d *Watchdog) NextLook() (next time.Time) {
	for s := range d.locked() {
		if next.IsZero() || !s.look.IsZero() && s.look.Before(next) {
			next = s.look
		}
	}
	return next
}

// SetWall replaces what the wall clock reads at a moment, for tests.
func (d *Watchdog) SetWall(wall func(time.Time) time.Time) { d.clock.wall.Store(&wall) }

func (d *Watchdog) shardOf(key string) *shard {
	return &d.shards[maphash.String(d.seed, key)%shardCount]
}

// locked is every shard, one after the other, each under its mutex.
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

// start starts the goroutine, with what the first lease read from the clocks.
func (d *Watchdog) start(drift time.Duration) {
	if !d.started.Load() && d.started.CompareAndSwap(false, true) {
		d.running.Go(func() { d.run(drift) })
	}
}

// poke has the watchdog look at its leases again.
func (d *Watchdog) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // a look is coming anyway
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
		if d.identity.due(now, r.leases) {
			d.running.Go(func() { d.recognize(ctx) })
		}
		for _, w := range r.lost {
			w.holder.Lost(w.Err())
		}
		for _, batch := range batches(r.due) {
			d.running.Go(func() { d.renew(ctx, batch) })
		}
		timer.Reset(time.Until(r.next))
	}
}

// round is what one look at all leases found.
type round struct {
	now    time.Time
	due    []request
	lost   []*Watch
	leases int
	next   time.Time // when to look again
}

// collect looks at all leases. Slept says that time passed that no timer saw: any
// lease may be over then, wherever it stands in its heap.
func (d *Watchdog) collect(now time.Time, slept bool) round {
	r := round{now: now, next: now.Add(idle)}
	for s := range d.locked() {
		if slept {
			s.expire(&r)
		}
		s.collect(&r)
	}
	for s := range d.locked() {
		if len(r.due) > 0 { // what was looked at before the first one that is due may join
			s.collect(&r)
		}
		r.leases += len(s.heap)
		if next := s.rest(now); next.Before(r.next) {
			r.next = next
		}
	}
	return r
}
