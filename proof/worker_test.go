package proof_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof"
	"github.com/keyturn/keyturn/store/redisstore"
)

// The environment of a process that the tests start: this test binary again.
const (
	envAddr    = "KEYTURN_PROOF_ADDR"
	envFile    = "KEYTURN_PROOF_FILE"
	envProcess = "KEYTURN_PROOF_PROCESS"
)

const (
	leaseTTL = 400 * time.Millisecond
	permits  = 3
	workers  = 6 // of a process
)

// monotonic is CLOCK_MONOTONIC: the one clock that all processes of a machine
// share and that nobody sets. Go's own times count on it, too, but from a start
// that is each process's own.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// sharedClock makes what tells a moment of this process's time by that clock. It
// looks at both at once, and again if it was interrupted between them.
func sharedClock() func(time.Time) int64 {
	for {
		before, here, after := monotonic(), time.Now(), monotonic()
		if after-before < int64(100*time.Microsecond) {
			// before is not later than here, so no deadline is taken for a later one.
			return func(t time.Time) int64 { return before + int64(t.Sub(here)) }
		}
	}
}

// actAsProcess does the work of a started process, if this is one: it takes and
// frees locks until its standard input ends.
func actAsProcess() {
	addr := os.Getenv(envAddr)
	if addr == "" {
		return
	}
	file, err := os.OpenFile(os.Getenv(envFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(err)
	nr, err := strconv.Atoi(os.Getenv(envProcess))
	must(err)
	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: addr}), redisstore.WithWaiterLease(time.Second))
	must(err)
	eng, err := core.New(store, core.WithTTL(leaseTTL), core.WithMaxWait(time.Second),
		core.WithLogger(slog.New(slog.DiscardHandler))) // most of what is lost is taken by force, as the program wants it
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	worker{eng, proof.NewRecorder(nr, file, monotonic, sharedClock())}.work(ctx)
	must(eng.Close(context.Background()))
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// worker is what the goroutines of a process have in common.
type worker struct {
	eng *core.Engine
	rec *proof.Recorder
}

// work goes on until ctx ends.
func (w worker) work(ctx context.Context) {
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
func (w worker) once(ctx context.Context) {
	claims := want()
	nr := w.rec.Ask(claims)
	lease, err := w.eng.AcquireAll(ctx, claims)
	if err != nil {
		return
	}
	note := func(what proof.What) {
		w.rec.Note(proof.Event{
			Nr: nr, What: what, At: w.rec.Clock(), Until: w.rec.Mono(lease.Deadline()),
			Owner: lease.Owner(), Token: lease.Token(), TTL: lease.TTL(),
		})
	}
	note(proof.Given)
	for range rand.N(3) {
		sleep := rand.N(4 * time.Millisecond)
		if rand.N(20) == 0 {
			sleep = leaseTTL / 2 // so that it is renewed, or lost in a pause
		}
		time.Sleep(sleep)
		switch n := rand.N(10); {
		case n == 0:
			w.extend(ctx, nr, lease)
		case n < 5 && sharable(claims):
			note(proof.Sharing)
			_ = lease.Downgrade(ctx) // whatever came of it, nobody counts on more
		}
		if lease.Err() != nil {
			break
		}
		note(proof.Holding)
	}
	note(proof.Returning)
	err = lease.Release(context.Background())
	switch {
	case err == nil:
		note(proof.Returned)
	case errors.Is(err, driver.ErrLeaseLost):
		note(proof.Gone)
	default:
		note(proof.Unsure)
	}
}

// extend asks for a longer or a shorter term. Until it is answered either of both
// may be in force, so the lease is certain until the end of the shorter one.
func (w worker) extend(ctx context.Context, nr int, lease *core.Lease) {
	ttl := leaseTTL/2 + rand.N(3*leaseTTL/2)
	until, now := w.rec.Mono(lease.Deadline()), w.rec.Clock()
	w.rec.Note(proof.Event{Nr: nr, What: proof.Extending, At: now, Until: min(until, now+int64(ttl)), TTL: ttl})
	_ = lease.Extend(ctx, ttl) // whatever came of it, the deadline says so
}

// force takes a key away from its holders.
func (w worker) force(ctx context.Context) {
	key := []string{"x", "y", "books", "pages", "gate"}[rand.N(5)]
	nr := w.rec.Force(key)
	holders, err := w.eng.ForceRelease(ctx, key, "a test")
	e := proof.Event{Nr: nr, What: proof.Forced, At: w.rec.Clock()}
	if err != nil {
		e.What = proof.Unsure
	}
	for _, h := range holders {
		e.Owners = append(e.Owners, h.Owner)
	}
	w.rec.Note(e)
}
