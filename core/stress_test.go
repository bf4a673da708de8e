package core_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/store/memstore"
)

// history is what was held, and what was recorded.
type history struct {
	mu      sync.Mutex
	holds   map[string][]hold
	results map[string]string // of Once, per key
}

type hold struct {
	from, to time.Time
	token    uint64
}

// held notes how long the lease was in force for its holder.
func (h *history) held(l *core.Lease, from, to time.Time) {
	if end := l.Deadline(); end.Before(to) {
		to = end
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds[l.Key()] = append(h.holds[l.Key()], hold{from, to, l.Token()})
}

// Everything at once, over stores that refuse, lose answers and are slow, in two processes, with callers
// that hang up, panic and release twice, and engines that close in the middle:
// no two hold a key together, tokens rise, what is on record stays, and nothing
// is left over. The simulator does it with real stores and for longer; here the race detector watches.
func TestEverythingAtOnce(t *testing.T) {
	seen := &history{holds: map[string][]hold{}, results: map[string]string{}}
	var acquisitions, holds atomic.Int64
	told := core.WithHooks(observe.Hooks{
		AcquireStart: func(ctx context.Context, _ observe.Acquisition) context.Context { acquisitions.Add(1); return ctx },
		AcquireEnd:   func(context.Context, observe.Acquisition, observe.Lease, error) { acquisitions.Add(-1) },
		HoldStart:    func(ctx context.Context, _ observe.Lease) context.Context { holds.Add(1); return ctx },
		HoldEnd:      func(context.Context, observe.Lease, error) { holds.Add(-1) },
	})
	shared := memstore.New()
	stop := time.Now().Add(1500 * time.Millisecond)
	var engines []*core.Engine
	var all sync.WaitGroup
	for range 2 {
		store := locktest.NewStore(shared.Peer())
		engines = append(engines, open(t, store, told,
			core.WithTTL(80*time.Millisecond), core.WithMaxWait(60*time.Millisecond), core.WithMaxHold(150*time.Millisecond),
			core.WithMaxWaiters(8), core.WithLinger(time.Millisecond), core.WithReleaseTimeout(30*time.Millisecond)))
		weather := []func(){store.Refuse, store.LoseAnswers, func() { store.Delay(rand.N(3 * time.Millisecond)) }, store.Heal, store.Heal, store.Heal}
		all.Go(func() {
			for ; time.Now().Before(stop); time.Sleep(rand.N(10 * time.Millisecond)) {
				weather[rand.IntN(len(weather))]()
			}
			store.Heal()
		})
	}
	for i := range 64 {
		all.Go(func() {
			for time.Now().Before(stop) {
				visit(t, engines[i%2], seen)
			}
		})
	}
	time.Sleep(time.Until(stop) - 200*time.Millisecond)
	for _, eng := range engines {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
			defer cancel()
			_ = eng.Close(ctx)
		})
	}
	all.Wait()
	if a, h := acquisitions.Load(), holds.Load(); a != 0 || h != 0 {
		t.Errorf("observers were told of more beginnings than ends: %d of acquisitions, %d of holds", a, h)
	}
	total := 0
	for key, holds := range seen.holds {
		total += len(holds)
		slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(holds); i++ {
			if a, b := holds[i-1], holds[i]; b.from.Before(a.to) {
				t.Errorf("%s: %d was held until %v after %d was granted", key, a.token, a.to.Sub(b.from), b.token)
			}
		}
	}
	if total < 10 {
		t.Errorf("only %d leases: the test shows nothing", total)
	}
	wantNothingLeft(t, engines...)
	t.Log(total, "leases", len(seen.results), "results")
}

// visit is one caller with one of many manners.
func visit(t *testing.T, eng *core.Engine, seen *history) {
	ctx, cancel := context.WithTimeout(bg, rand.N(100*time.Millisecond))
	defer cancel()
	if rand.IntN(4) == 0 {
		defer time.AfterFunc(rand.N(50*time.Millisecond), cancel).Stop()
	}
	key := fmt.Sprint("k", rand.IntN(6))
	var err error
	switch rand.IntN(3) {
	case 0:
		var l *core.Lease
		if l, err = eng.Acquire(ctx, key); err == nil {
			from := time.Now()
			work(l)
			to := time.Now()
			var others sync.WaitGroup
			others.Go(func() { _ = l.Err() })
			others.Go(func() { _ = l.Release(ctx) })
			_ = l.Release(ctx)
			_ = l.Release(ctx)
			others.Wait()
			seen.held(l, from, to)
		}
	case 1:
		defer func() { _ = recover() }()
		err = eng.Do(ctx, key, func(ctx context.Context) error {
			l, _ := core.LeaseFrom(ctx)
			from := time.Now()
			work(l)
			seen.held(l, from, time.Now())
			if rand.IntN(5) == 0 {
				panic("handler")
			}
			return nil
		}, core.WithFailFast())
		if errors.Is(err, core.ErrLeaseLost) {
			err = nil
		}
	case 2:
		key := fmt.Sprint("once", rand.IntN(200))
		id := fmt.Sprint(rand.Uint64())
		var out core.Outcome
		seen.mu.Lock()
		before := seen.results[key]
		seen.mu.Unlock()
		out, err = eng.Once(ctx, key, func(context.Context) ([]byte, error) { return []byte(id), nil })
		if err == nil {
			seen.mu.Lock()
			if before != "" && before != string(out.Result) || before != "" && !out.Duplicate {
				t.Errorf("%s: %q, was %q", key, out.Result, before)
			}
			seen.results[key] = string(out.Result)
			seen.mu.Unlock()
		}
		if errors.Is(err, core.ErrLeaseLost) || errors.Is(err, core.ErrOutcomeUnknown) {
			err = nil
		}
	}
	if err == nil {
		return
	}
	if errors.Is(err, core.ErrClosed) {
		time.Sleep(time.Millisecond)
	}
	kinds := 0
	for _, kind := range []error{context.Canceled, context.DeadlineExceeded, core.ErrHeld, core.ErrTooManyWaiters, core.ErrUnavailable, core.ErrClosed} {
		if errors.Is(err, kind) {
			kinds++
		}
	}
	if kinds != 1 {
		t.Errorf("%d kinds of error in one: %v", kinds, err)
	}
}

// work takes its time, with an eye on the lease or not.
func work(l *core.Lease) {
	d := rand.N(10 * time.Millisecond)
	if rand.IntN(10) == 0 {
		d *= 30
	}
	if rand.IntN(2) == 0 {
		time.Sleep(d)
		return
	}
	select {
	case <-l.Context().Done():
	case <-time.After(d):
	}
}
