package main_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
	"github.com/keyturn/keyturn/store/memstore"
)

// Stores that are wrong in what is done to a lease that is held. Each takes its
// time, as a server does.

// slow is right, and takes its time.
type slow struct{ *memstore.Store }

func latency() { time.Sleep(rand.N(time.Millisecond)) }

func (s slow) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	latency()
	defer latency()
	return s.Store.Acquire(ctx, req)
}

func (s slow) Renew(ctx context.Context, grants []driver.Grant) []error {
	latency()
	defer latency()
	return s.Store.Renew(ctx, grants)
}

func (s slow) Release(ctx context.Context, g driver.Grant) error {
	latency()
	defer latency()
	return s.Store.Release(ctx, g)
}

func (s slow) Downgrade(ctx context.Context, g driver.Grant) error {
	latency()
	defer latency()
	return s.Store.Downgrade(ctx, g)
}

func (s slow) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	latency()
	defer latency()
	return s.Store.ForceRelease(ctx, key, reason, only...)
}

// freeing frees what is downgraded.
type freeing struct{ slow }

func (s freeing) Downgrade(ctx context.Context, g driver.Grant) error {
	err := s.slow.Downgrade(ctx, g)
	if err == nil {
		_ = s.slow.Release(ctx, g)
	}
	return err
}

// brief gives a short term only to requests for another term than the usual one.
type brief struct{ slow }

func (s brief) Renew(ctx context.Context, grants []driver.Grant) []error {
	for i := range grants {
		if grants[i].TTL != work.TTL {
			grants[i].TTL = work.TTL / 8
		}
	}
	return s.slow.Renew(ctx, grants)
}

// stubborn has a renewal bring back what was taken away, if there is room.
type stubborn struct{ slow }

func (s stubborn) Renew(ctx context.Context, grants []driver.Grant) []error {
	errs := s.slow.Renew(ctx, grants)
	for i, g := range grants {
		if errors.Is(errs[i], driver.ErrLeaseLost) {
			_, errs[i] = s.slow.Acquire(ctx, driver.Request{Owner: g.Owner, Claims: g.Claims, TTL: g.TTL})
		}
	}
	return errs
}

// polite takes nothing away, and says that it did.
type polite struct{ slow }

func (s polite) ForceRelease(ctx context.Context, key, _ string, _ ...driver.Holder) ([]driver.Holder, error) {
	info, err := s.Inspect(ctx, key)
	return info.Holders, err
}

// processesInMemory has processes work on a memstore, or on what wrap makes of it,
// for so long of a bubble's time. The error is what is wrong with their history.
func processesInMemory(t *testing.T, lasts time.Duration, wrap func(slow) driver.Store) error {
	return inABubble(t, lasts, wrap, func(context.Context, *memstore.Store) []history.Loss { return nil })
}

// inABubble is processesInMemory with a nemesis: it works on the store until the context ends, and
// says what it made the store lose.
func inABubble(t *testing.T, lasts time.Duration, wrap func(slow) driver.Store, nemesis func(context.Context, *memstore.Store) []history.Loss) error {
	var buf bytes.Buffer
	var losses []history.Loss
	registers := &work.Registers{}
	synctest.Test(t, func(t *testing.T) {
		file := &shared{w: &buf}
		ctx, cancel := context.WithTimeout(context.Background(), lasts)
		defer cancel()
		mem := memstore.New()
		var all sync.WaitGroup
		all.Go(func() { losses = nemesis(ctx, mem) })
		for nr := range 3 {
			w := &work.Worker{Recorder: history.NewRecorder(nr+1, file, bubbleNow, bubbleTime), Resource: registers, Think: time.Millisecond, Blind: true, Seed: rand.Uint64()}
			if err := w.NewEngine(wrap(slow{mem.Peer()}), core.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				w.Work(ctx)
				_ = w.Engine.Close(context.Background())
			})
		}
		all.Wait()
	})
	events, err := history.ReadEvents(&buf)
	if err != nil {
		t.Fatal(err)
	}
	sections := history.Sections(events, nil)
	_, once := history.Once(events, losses...)
	return errors.Join(history.Check(sections, losses...), history.Deadlines(events), history.Unfounded(sections, losses...), once, history.Registers(history.Increments(events), registers.Values()))
}

// The clock of a history in a bubble.
func bubbleTime(at time.Time) int64 { return at.UnixNano() }
func bubbleNow() int64              { return bubbleTime(time.Now()) }

// shared is a file of several recorders.
type shared struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// TestProcessesOnBrokenStoresAreRejected: the same workers that are killed and
// paused on Redis.
func TestProcessesOnBrokenStoresAreRejected(t *testing.T) {
	servertest.Long(t)
	for _, test := range []struct {
		name string
		wrap func(slow) driver.Store
		says []string // none: it is right
	}{
		{"nothing", func(s slow) driver.Store { return s }, nil},
		{"what is downgraded is free", func(s slow) driver.Store { return freeing{s} }, []string{"together"}},
		{"what is extended is not", func(s slow) driver.Store { return brief{s} }, []string{"together"}},
		{"a renewal brings back what was taken", func(s slow) driver.Store { return stubborn{s} }, []string{"taken away"}},
		{"what is taken stays", func(s slow) driver.Store { return polite{s} }, []string{"taken away"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err error
			for range 10 { // a short history may have none of what a store does wrong
				err = processesInMemory(t, 20*time.Second, test.wrap)
				if test.says == nil || err != nil && strings.Contains(err.Error(), test.says[0]) {
					break
				}
			}
			says(t, err, test.says)
		})
	}
}

// says checks that an error says all that, or that there is none.
func says(t *testing.T, err error, all []string) {
	t.Helper()
	if err == nil {
		err = errNothing
	} else if len(all) == 0 {
		t.Errorf("the checker complains: %v", err)
	}
	for _, want := range all {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the checker says %q, want %q in it", err, want)
		}
	}
}

var errNothing = errors.New("nothing")
