// Package work is what the processes of a history do: they take and free locks, change registers
// under them, run functions once, and write down what they were granted.
package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/proof/history"
)

// TTL is that of the leases, unless a Worker says otherwise, or they are extended.
const TTL = 400 * time.Millisecond

const (
	permits = 2
	// Goroutines is how many of them work in a process.
	Goroutines = 6
)

// Worker is what the goroutines of a process have in common.
type Worker struct {
	Engine   *core.Engine // NewEngine makes it
	Recorder *history.Recorder
	Resource Resource      // what some of the locks protect
	TTL      time.Duration // the engine's; 0: TTL
	Rest     time.Duration // between two operations, on average
	// Plain: nothing is done but to change registers under exclusive locks, as with other systems.
	Plain bool
	Think time.Duration // between the last look at a lease and the write, at most
	// Seed decides what the goroutines do, and how long they rest.
	Seed uint64
	// Retention is how long records of Once are kept: longer than ids are repeated. 0: a minute.
	Retention time.Duration
}

// hand is one goroutine of a worker.
type hand struct {
	*Worker
	*rand.Rand
}

// upTo returns a time from 0 up to most, without it.
func (w hand) upTo(most time.Duration) time.Duration { return time.Duration(w.Int64N(int64(most))) }

// NewEngine makes the engine of the worker. Every other process keeps leases that nobody uses, if the
// store can tell it when somebody wants them.
func (w *Worker) NewEngine(store driver.Store, opts ...core.EngineOption) (err error) {
	if w.TTL == 0 {
		w.TTL = TTL
	}
	opts = append(opts, core.WithTTL(w.TTL), core.WithMaxWait(time.Second))
	if store.Describe().OnWanted != nil {
		opts = append(opts, core.WithLinger(time.Duration(w.Recorder.Process%2)*w.TTL), core.WithHooks(observe.Hooks{Lingered: func(l observe.Linger) {
			if l.State == observe.LingerTaken {
				w.Recorder.Now(history.Event{What: history.Lingered})
			}
		}}))
	}
	w.Engine, err = core.New(store, opts...)
	return err
}

// Work goes on until ctx ends. One goroutine does long jobs: it keeps each lease for two terms.
func (w *Worker) Work(ctx context.Context) {
	var all sync.WaitGroup
	for i := range Goroutines {
		w := hand{w, rand.New(rand.NewPCG(w.Seed, uint64(i)))}
		long := i == 0
		all.Go(func() {
			for ctx.Err() == nil {
				switch n := w.IntN(20); {
				case long:
					w.hold(ctx, true)
				case w.Plain:
					w.hold(ctx, false)
				case n == 0:
					w.force(ctx)
				case n < 4:
					w.run(ctx)
				default:
					w.hold(ctx, false)
				}
				if w.Rest > 0 {
					time.Sleep(w.upTo(2 * w.Rest))
				}
			}
		})
	}
	all.Wait()
}

// PlainKeys is how many keys are only ever claimed exclusively and alone, and never taken by force. Only on
// these does a lease alone protect a register.
const PlainKeys = 8

// want picks claims: of x and y exclusively only, so that they can be checked for
// more.
func (w hand) want(alone bool) []driver.Claim {
	sets := [][]driver.Claim{
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
	}
	if n := w.IntN(2 * len(sets)); n < len(sets) && !alone {
		return sets[n]
	}
	return []driver.Claim{driver.Exclusive(fmt.Sprint("p", w.IntN(PlainKeys)))}
}

// Keys returns all keys that are claimed, except those of Once.
func Keys() []string {
	all := []string{"x", "y", "books", "pages", "gate"}
	for i := range PlainKeys {
		all = append(all, fmt.Sprint("p", i))
	}
	return all
}

// sharable: what they may be downgraded to leaves x and y alone.
func sharable(claims []driver.Claim) bool { return claims[0] == driver.Exclusive("books") }

// holding is a lease that was granted, and what is written down about it.
type holding struct {
	hand
	nr    int
	lease *core.Lease
}

func (h holding) note(what history.What) { h.noteAt(h.Recorder.Clock(), what) }

func (h holding) noteAt(at int64, what history.What) {
	h.Recorder.Note(history.Event{
		Nr: h.nr, What: what, At: at, Until: h.Recorder.Mono(h.lease.Deadline()),
		Owner: h.lease.Owner(), Token: h.lease.Token(), TTL: h.lease.TTL(),
	})
}

// holds reports whether the holder counts on its lease, and notes that. The clock comes first, so the
// lease was in force at that moment, however long this process is stopped in between.
func (h holding) holds() bool {
	at := h.Recorder.Clock()
	if h.lease.Err() != nil {
		return false
	}
	h.noteAt(at, history.Holding)
	return true
}

// hold is one acquisition. Each event is noted when what it tells is true for
// sure: a section from after the answer until before the release.
func (w hand) hold(ctx context.Context, long bool) {
	claims := w.want(w.Plain || long)
	nr := w.Recorder.Ask(claims)
	lease, err := w.Engine.AcquireAll(ctx, claims)
	if err != nil {
		w.refused(ctx, nr, err)
		return
	}
	h := holding{w, nr, lease}
	h.note(history.Given)
	go h.listen()
	shared := claims[0].Mode != driver.ModeExclusive
	if long {
		h.stay()
	}
	if claims[0].Mode == driver.ModePermit { // otherwise there is hardly ever a third that wants one
		time.Sleep(h.upTo(h.TTL))
	}
	for range h.IntN(3) {
		h.use()
		switch n := h.IntN(10); {
		case w.Plain || n < 2 && !shared:
			h.increment(claims[0].Key)
		case n == 2:
			h.extend(ctx)
		case n < 6 && sharable(claims):
			shared = true
			h.note(history.Sharing)
			_ = lease.Downgrade(ctx) // whatever came of it, nobody counts on more
		}
		if !h.holds() {
			break
		}
	}
	h.note(history.Returning)
	err = lease.Release(context.Background())
	switch {
	case err == nil:
		h.note(history.Returned)
	case errors.Is(err, driver.ErrLeaseLost):
		h.note(history.Gone)
	default:
		w.typed(err)
		h.note(history.Unsure)
	}
}

// use takes its time, and sometimes so much that the lease is renewed, or lost in a pause.
func (h holding) use() {
	sleep := h.upTo(4 * time.Millisecond)
	if h.IntN(int(20*h.TTL/TTL)) == 0 {
		sleep = h.TTL / 2
	}
	time.Sleep(sleep)
}

// stay keeps the lease for two terms, so that it counts whether each renewal arrives.
func (h holding) stay() {
	for end := time.Now().Add(2 * h.TTL); h.holds() && time.Now().Before(end); {
		time.Sleep(h.TTL / 8)
	}
}

// listen notes when the holder is told that its lease is lost. A holder that sleeps until it looks
// again counts on nothing meanwhile. It ends with the lease.
func (h holding) listen() {
	<-h.lease.Done()
	if errors.Is(h.lease.Err(), driver.ErrLeaseLost) {
		h.Recorder.Now(history.Event{Nr: h.nr, What: history.Noticed})
	}
}

// extend asks for a longer or a shorter term. Until it is answered either of both
// may be in force, so the lease is certain until the end of the shorter one.
func (h holding) extend(ctx context.Context) {
	ttl := h.TTL/2 + h.upTo(3*h.TTL/2)
	until, now := h.Recorder.Mono(h.lease.Deadline()), h.Recorder.Clock()
	h.Recorder.Note(history.Event{Nr: h.nr, What: history.Extending, At: now, Until: min(until, now+int64(ttl)), TTL: ttl})
	_ = h.lease.Extend(ctx, ttl) // whatever came of it, the deadline says so
}

// Fenced and Bare are the registers that a key protects: with the lease's token, and without it.
func Fenced(key string) string { return key + "/fenced" }

// Bare is described at Fenced.
func Bare(key string) string { return key + "/bare" }

// increment adds one to the registers of key. A key that may be taken by force protects only with
// its tokens.
func (h holding) increment(key string) {
	if h.Resource == nil {
		return
	}
	h.add(Fenced(key), h.lease.Token())
	if key[0] == 'p' && key != "pages" {
		h.add(Bare(key), 0)
	}
}

func (h holding) add(register string, token uint64) {
	Add(h.Recorder, h.Resource, register, token, func() bool {
		if h.lease.Err() != nil || time.Until(h.lease.Deadline()) < 2*h.Think {
			return false
		}
		time.Sleep(h.upTo(h.Think + 1))
		return true
	})
}

// Add does what a careful holder does: it looks at the lease before it writes. holds looks, and thinks for a
// while. This pause between the look and the write is what a lease alone does not protect from.
func Add(r *history.Recorder, to Resource, register string, token uint64, holds func() bool) {
	nr := r.Begin(history.Event{What: history.Adding, Key: register, Token: token})
	value, err := to.Get(register, token)
	if err == nil {
		if !holds() {
			r.Now(history.Event{Nr: nr, What: history.Denied})
			return
		}
		r.Now(history.Event{Nr: nr, What: history.Writing, Value: value})
		err = to.Set(register, token, value+1)
	}
	outcome := history.Unsure
	switch {
	case err == nil:
		outcome = history.Added
	case errors.Is(err, ErrStale):
		outcome = history.Stale
	}
	r.Now(history.Event{Nr: nr, What: outcome})
}

// force takes a key away from the holders that it has seen, so nobody else suffers if the request comes late.
func (w hand) force(ctx context.Context) {
	key := []string{"x", "y", "books", "pages", "gate"}[w.IntN(5)]
	info, err := w.Engine.Inspect(ctx, key)
	if err != nil || len(info.Holders) == 0 {
		return
	}
	var owners []string
	for _, h := range info.Holders {
		owners = append(owners, h.Owner)
	}
	nr := w.Recorder.Force(key, owners...)
	holders, err := w.Engine.ForceRelease(ctx, key, "a trial", info.Holders...)
	e := history.Event{Nr: nr, What: history.Forced, At: w.Recorder.Clock()}
	if err != nil {
		e.What = w.fate(ctx, err)
	}
	for _, h := range holders {
		e.Owners = append(e.Owners, h.Owner)
	}
	w.Recorder.Note(e)
}
