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
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// chaos is a store behind a bad network: requests and answers are slow, get
// lost before they arrive or on the way back.
type chaos struct {
	*memstore.Store
	oneIn int
}

// trip carries a request there and back.
func (s *chaos) trip(ctx context.Context, do func() error) error {
	lag := func() bool {
		select {
		case <-time.After(rand.N(3 * time.Millisecond)):
			return rand.IntN(s.oneIn) > 0
		case <-ctx.Done():
			return false
		}
	}
	if !lag() {
		return errDown
	}
	err := do()
	if !lag() {
		return errDown
	}
	return err
}

func (s *chaos) Acquire(ctx context.Context, req driver.Request) (g driver.Grant, err error) {
	err = s.trip(ctx, func() error { g, err = s.Store.Acquire(ctx, req); return err })
	return g, err
}

func (s *chaos) Begin(ctx context.Context, req driver.Request) (g driver.Grant, rec *driver.Record, err error) {
	err = s.trip(ctx, func() error { g, rec, err = s.Store.Begin(ctx, req); return err })
	return g, rec, err
}

func (s *chaos) Renew(ctx context.Context, grants []driver.Grant) []error {
	var errs []error
	err := s.trip(ctx, func() error { errs = s.Store.Renew(ctx, grants); return nil })
	if err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	return errs
}

func (s *chaos) Release(ctx context.Context, g driver.Grant) error {
	return s.trip(ctx, func() error { return s.Store.Release(ctx, g) })
}

func (s *chaos) Complete(ctx context.Context, g driver.Grant, rec driver.Record, keep time.Duration) error {
	return s.trip(ctx, func() error { return s.Store.Complete(ctx, g, rec, keep) })
}

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

// balance counts what observers are told in pairs.
type balance struct {
	acquisitions, holds atomic.Int64
}

func (b *balance) hooks() observe.Hooks {
	return observe.Hooks{
		AcquireStart: func(ctx context.Context, _ observe.Acquisition) context.Context { b.acquisitions.Add(1); return ctx },
		AcquireEnd:   func(context.Context, observe.Acquisition, observe.Lease, error) { b.acquisitions.Add(-1) },
		HoldStart:    func(ctx context.Context, _ observe.Lease) context.Context { b.holds.Add(1); return ctx },
		HoldEnd:      func(context.Context, observe.Lease, error) { b.holds.Add(-1) },
	}
}

// Everything at once, over a bad network, between two processes, with callers
// that hang up, panic and release twice, and engines that close in the middle:
// no two hold a key together, tokens rise, what is on record stays, and nothing
// is left over.
func TestEverythingAtOnce(t *testing.T) {
	seen := &history{holds: map[string][]hold{}, results: map[string]string{}}
	told := &balance{}
	shared := memstore.New()
	var engines []*core.Engine
	for range 2 {
		engines = append(engines, open(t, &chaos{shared.Peer(), 12},
			core.WithTTL(80*time.Millisecond), core.WithMaxWait(60*time.Millisecond), core.WithMaxHold(150*time.Millisecond),
			core.WithMaxWaiters(8), core.WithLinger(time.Millisecond), core.WithReleaseTimeout(30*time.Millisecond), core.WithHooks(told.hooks())))
	}
	stop := time.Now().Add(1500 * time.Millisecond)
	var all sync.WaitGroup
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
	if a, h := told.acquisitions.Load(), told.holds.Load(); a != 0 || h != 0 {
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
	for _, eng := range engines {
		wantNothingLeft(t, eng)
	}
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
