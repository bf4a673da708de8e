package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/watchdog"
	"github.com/keyturn/keyturn/store/memstore"
)

// counted returns a function that gives result and counts its runs.
func counted(result string, runs *int) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		*runs++
		return []byte(result), nil
	}
}

// Marked only after success: a failed message must be processed on redelivery. (Watermill's deduplicator marks
// before.) A wrapped ErrSkipResult is an error like any other: it may come from another execution inside of the function.
func TestOnceForgetsAFailedRun(t *testing.T) {
	eng := newEngine(t, memstore.New())
	runs := 0
	for _, want := range []error{errHandler, fmt.Errorf("inner: %w", core.ErrSkipResult)} {
		out, err := eng.Once(bg, "k", func(context.Context) ([]byte, error) { runs++; return []byte("x"), want })
		check(t, err == want && !out.Duplicate, "%+v, %v, want %v", out, err, want)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = eng.Once(bg, "k", func(context.Context) ([]byte, error) { runs++; panic("boom") })
	}()
	out, err := eng.Once(bg, "k", counted("ok", &runs))
	check(t, err == nil && !out.Duplicate && runs == 4, "%+v, %v after %d runs", out, err, runs)
}

func TestOnceFingerprint(t *testing.T) {
	a, b := core.WithFingerprint([]byte("a")), core.WithFingerprint([]byte("b"))
	unkept := core.WithResultLimit(0)
	for name, tc := range map[string]struct {
		first, second []core.CallOption
		mismatch      bool
	}{
		"same":                {[]core.CallOption{a}, []core.CallOption{a}, false},
		"other":               {[]core.CallOption{a}, []core.CallOption{b}, true},
		"other, no result":    {[]core.CallOption{a, unkept}, []core.CallOption{b}, true},
		"none stored":         {nil, []core.CallOption{b}, false},
		"none given":          {[]core.CallOption{a}, nil, false},
		"any content, before": {[]core.CallOption{a}, []core.CallOption{core.WithoutFingerprint(), b}, false},
		"any content, after":  {[]core.CallOption{a}, []core.CallOption{b, core.WithoutFingerprint()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			eng := newEngine(t, memstore.New())
			runs := 0
			if _, err := eng.Once(bg, "k", counted("r", &runs), tc.first...); err != nil {
				t.Fatal(err)
			}
			out, err := eng.Once(bg, "k", counted("r", &runs), tc.second...)
			if tc.mismatch {
				wantOnly(t, err, core.ErrFingerprintMismatch)
				check(t, out.Result == nil, "the answer to something else was given away")
			} else {
				check(t, err == nil && out.Duplicate, "%+v, %v", out, err)
			}
			wantEqual(t, "runs", runs, 1)
		})
	}
}

func TestOnceCopiesTheFingerprint(t *testing.T) {
	eng := newEngine(t, memstore.New())
	digest := []byte("a")
	for range 2 {
		_, err := eng.Once(bg, "k", func(context.Context) ([]byte, error) {
			digest[0] = 'b' // a buffer that is used again
			return nil, nil
		}, core.WithFingerprint(digest))
		digest[0] = 'a'
		wantNil(t, err)
	}
}

// No store has to add for ever to the present time.
func TestOnceIsRememberedForACentury(t *testing.T) {
	spy, eng := newSpied(t, core.WithRetention(core.Forever))
	must(t, errOf(eng.Once(bg, "k", counted("r", new(int)))))
	wantEqual(t, "retention", spy.longest, 100*365*24*time.Hour)
}

// A record that can't be written is tried again while the lease is good. That costs the caller the release timeout at
// most, and no more than the lease's time, and does not keep the key locked.
func TestOnceInAnOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		ttl, out time.Duration
		took     time.Duration // if the record is never written
	}{
		"a blip":        {ttl: defaultTTL, out: time.Second},
		"long":          {ttl: defaultTTL, out: time.Hour, took: defaultReleaseTimeout},
		"a short lease": {ttl: time.Second, out: time.Hour, took: time.Second - watchdog.Margin(time.Second)},
	} {
		inBubble(t, name, func(t *testing.T) {
			spy, eng := newSpied(t)
			runs, began := 0, time.Now()
			spy.onRecord = func(context.Context, driver.Grant) error {
				if time.Since(began) < tc.out {
					return errDown
				}
				return nil
			}
			out, err := eng.Once(bg, "k", counted("r", &runs), core.WithTTL(tc.ttl))
			check(t, string(out.Result) == "r" && !out.Duplicate, "the function succeeded, the outcome says %+v", out)
			if tc.took > 0 {
				wantOnly(t, err, core.ErrOutcomeUnknown, core.ErrUnavailable)
				wantTook(t, began, tc.took)
				synctest.Wait()
				isFree(t, eng, "k")
				return
			}
			wantNil(t, err)
			out, err = eng.Once(bg, "k", counted("r", &runs))
			check(t, err == nil && out.Duplicate, "%+v, %v", out, err)
		})
	}
}

// plain is a store without a ledger.
type plain struct{ driver.Store }

func (plain) Describe() driver.Description { return driver.Description{} }

// Once must not claim success for what is not on record.
func TestOnceWhoseFunctionReleases(t *testing.T) {
	for name, tc := range map[string]struct {
		arrives, answered bool
		want              []error
	}{
		"released":                     {true, true, []error{core.ErrReleased}},
		"unanswered, but released":     {true, false, []error{core.ErrReleased}},
		"unanswered, and not released": {false, false, nil}, // so it could be recorded
	} {
		t.Run(name, func(t *testing.T) {
			spy, eng := newSpied(t)
			defer spy.mend()
			spy.onRelease = func(ctx context.Context, g driver.Grant) error {
				if tc.answered {
					return nil
				}
				if tc.arrives {
					_ = spy.Store.Release(ctx, g)
				}
				return errDown
			}
			out, err := eng.Once(bg, "k", func(ctx context.Context) ([]byte, error) {
				l, _ := core.LeaseFrom(ctx)
				_ = l.Release(ctx)
				return []byte("r"), nil
			})
			wantOnly(t, err, tc.want...)
			check(t, string(out.Result) == "r", "the function succeeded, the outcome says %+v", out)
			runs := 0
			out, again := eng.Once(bg, "k", counted("again", &runs))
			if again != nil && !errors.Is(again, core.ErrOutcomeUnknown) || out.Duplicate != (err == nil) {
				t.Errorf("after %v: %+v, %v", err, out, again)
			}
		})
	}
}

// The effect is on record whatever becomes of its result: a function whose result
// is over the limit used to run again with every delivery.
func TestOnceRecordsTheEffectOfAResultOverTheLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		size   int
		result error // what the function returns along with it
		opts   []core.CallOption
		full   bool // the store has no room for it
		kept   bool
	}{
		"at the limit":    {size: defaultResultLimit, kept: true},
		"over the limit":  {size: defaultResultLimit + 1},
		"no limit left":   {size: 1, opts: []core.CallOption{core.WithResultLimit(0)}},
		"no result":       {size: 0, opts: []core.CallOption{core.WithResultLimit(0)}, kept: true},
		"not to be kept":  {size: 10, result: core.ErrSkipResult},
		"nothing to keep": {size: 0, result: core.ErrSkipResult},
		"no room":         {size: 10, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			shared := memstore.New()
			runs := 0
			for delivery := range 3 {
				var store driver.Store = shared.Peer() // as if by another process
				if tc.full {
					store = full{shared.Peer()}
				}
				eng := newEngine(t, store)
				out, err := eng.Once(bg, "k", func(context.Context) ([]byte, error) {
					runs++
					return make([]byte, tc.size), tc.result
				}, tc.opts...)
				switch {
				case out.Duplicate != (delivery > 0) || out.ResultNotKept == tc.kept:
					t.Errorf("delivery %d: %+v", delivery, out)
				case delivery == 0 || tc.kept:
					check(t, err == nil && len(out.Result) == tc.size, "delivery %d: %d bytes, %v", delivery, len(out.Result), err)
				default:
					wantOnly(t, err, core.ErrResultNotKept)
					var notKept *driver.ResultNotKeptError
					check(t, out.Result == nil && errors.As(err, &notKept) && notKept.Key == "k", "delivery %d: %d bytes, %v", delivery, len(out.Result), err)
				}
			}
			wantEqual(t, "effects of three deliveries", runs, 1)
			isFree(t, newEngine(t, shared), "k")
		})
	}
}

// full is a store that has room for marks only (L8).
type full struct{ *memstore.Store }

func (f full) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	rec.Result, rec.ResultNotKept = nil, true
	if err := f.Store.Complete(ctx, g, rec, retention); err != nil {
		return err
	}
	return fmt.Errorf("no room: %w", core.ErrResultNotKept)
}
