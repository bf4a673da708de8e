package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func items(keys ...string) []core.Item {
	all := make([]core.Item, len(keys))
	for i, key := range keys {
		all[i].Key = key
	}
	return all
}

// Each item of a batch has an answer of its own: new, on record, held, wrong, failed, or twice in it.
func TestOnceEach(t *testing.T) {
	eng, ctx := newEngine(t, memstore.New()), t.Context()
	runs := 0
	must(t, errOf(eng.Once(ctx, "old", counted("before", &runs))))
	for _, key := range []string{"other", "marked"} {
		must(t, errOf(eng.Once(ctx, key, counted("r", &runs), core.WithFingerprint([]byte("one")))))
	}
	must(t, errOf(eng.Once(ctx, "unkept", counted("r", &runs), core.WithResultLimit(0))))
	held := mustAcquire(t, eng, "held")
	defer mustRelease(t, held)
	own := errors.New("own")
	all := items("new", "old", "held", "", "fails", "other", "new", "large", "skipped", "new", "unkept", "unkept", "other", "marked", "marked")
	all[0].Fingerprint, all[9].Fingerprint, all[5].Fingerprint = []byte("a"), []byte("b"), []byte("two")
	all[12].Fingerprint, all[14].Fingerprint = []byte("one"), []byte("two")
	all[4].Err = errors.New("what was there before does not count")
	batch := func(ctx context.Context, fresh []int) error {
		runs++
		check(t, slices.Equal(fresh, []int{0, 4, 7, 8}), "fresh: %v", fresh)
		for _, i := range fresh {
			wantNil(t, errors.Join(all[i].Err, core.AssertHeld(ctx, core.Exclusive(all[i].Key))))
			all[i].Result = []byte("result of " + all[i].Key)
		}
		wantOnly(t, errOf(eng.Once(ctx, "new", counted("", &runs))), core.ErrWouldDeadlock)
		all[4].Err, all[8].Err = own, core.ErrSkipResult
		all[7].Result = make([]byte, 1000)
		return nil
	}
	must(t, eng.OnceEach(ctx, all, batch, core.WithResultLimit(100)))
	for i, want := range []struct {
		result    string
		duplicate bool
		notKept   bool
		err       error
	}{
		{result: "result of new"},
		{result: "before", duplicate: true},
		{err: core.ErrHeld},
		{err: core.ErrInvalidKey},
		{err: own},
		{err: core.ErrFingerprintMismatch},
		{result: "result of new", duplicate: true},
		{result: string(make([]byte, 1000)), notKept: true},
		{result: "result of skipped", notKept: true},
		{err: core.ErrFingerprintMismatch},
		{err: core.ErrResultNotKept, duplicate: true, notKept: true},
		{err: core.ErrResultNotKept, duplicate: true, notKept: true}, // it was told of the error alone
		{result: "r", duplicate: true},                               // of the right content, after an item of another one
		{result: "r", duplicate: true},                               // of any content,
		{err: core.ErrFingerprintMismatch},                           // and one of another
	} {
		got := all[i]
		if !errors.Is(got.Err, want.err) || errors.Is(got.Err, core.ErrWaitTimeout) || string(got.Result) != want.result || got.Duplicate != want.duplicate || got.ResultNotKept != want.notKept {
			t.Errorf("%d, %q: %+v, want %+v", i, got.Key, got, want)
		}
	}
	wantEqual(t, "runs", runs, 5)
	again := items("new", "large", "fails")
	must(t, eng.OnceEach(ctx, again, func(_ context.Context, fresh []int) error {
		check(t, slices.Equal(fresh, []int{2}), "fresh the second time: %v", fresh)
		return own // of all that are fresh
	}))
	check(t, again[0].Duplicate && errors.Is(again[1].Err, core.ErrResultNotKept) && errors.Is(again[2].Err, own), "%+v", again)
	wantNil(t, eng.OnceEach(ctx, items("new", "old"), func(context.Context, []int) error { t.Error("it ran"); return nil }))
}

// Batches that overlap, in other orders, never wait for each other. What is refused comes again, and
// each key has one effect.
func TestOnceEachOfOverlappingBatches(t *testing.T) {
	const keys = 40
	eng, ctx := newEngine(t, memstore.New()), t.Context()
	var effects [keys]atomic.Int32
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			left := make([]core.Item, keys)
			for i := range left {
				left[i].Key = strconv.Itoa((i*7 + worker*11) % keys)
			}
			for len(left) > 0 {
				wantNil(t, eng.OnceEach(ctx, left, func(ctx context.Context, fresh []int) error {
					for _, i := range fresh {
						key, _ := strconv.Atoi(left[i].Key)
						effects[key].Add(1)
					}
					return ctx.Err()
				}))
				left = slices.DeleteFunc(left, func(i core.Item) bool { return i.Err == nil })
				for _, i := range left {
					wantOnly(t, i.Err, core.ErrHeld)
				}
			}
		})
	}
	all.Wait()
	for i := range effects {
		wantEqual(t, fmt.Sprint("effects of key ", i), effects[i].Load(), 1)
	}
}

// After a panic, or a lease that is lost, nothing is recorded that did not happen, and no key stays
// held.
func TestOnceEachThatFails(t *testing.T) {
	store := memstore.New()
	eng, ctx := newEngine(t, store), t.Context()
	func() {
		defer func() {
			check(t, recover() != nil, "the panic did not arrive")
		}()
		_ = eng.OnceEach(ctx, items("a", "b"), func(context.Context, []int) error { panic("in the middle") })
	}()
	lost := items("a", "b")
	err := eng.OnceEach(ctx, lost, func(ctx context.Context, fresh []int) error {
		check(t, len(fresh) == 2, "after a panic: %v", fresh)
		wantNil(t, errOf(eng.ForceRelease(ctx, "a", "test")))
		<-ctx.Done()
		wantOnly(t, context.Cause(ctx), core.ErrLeaseLost)
		return nil // as if it had not noticed
	}, core.WithTTL(300*time.Millisecond))
	check(t, err == nil && errors.Is(lost[0].Err, core.ErrLeaseLost) && lost[1].Err == nil, "%v, %+v", err, lost)
	gone := items("c")
	wantNil(t, eng.OnceEach(callerFor(t, 0, -1), gone, func(context.Context, []int) error { t.Error("it ran"); return nil }))
	wantIs(t, "of a caller that has gone", gone[0].Err, context.Canceled)
}

// Nor do two items of one key share the memory of a result that may not be on record.
func TestOnceEachWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t)
		spy.onRecord = func(context.Context, driver.Grant) error { return errDown }
		twins := items("k", "k")
		wantNil(t, eng.OnceEach(bg, twins, func(context.Context, []int) error { twins[0].Result = []byte("r"); return nil }))
		clear(twins[0].Result)
		check(t, errors.Is(twins[1].Err, core.ErrOutcomeUnknown) && string(twins[1].Result) == "r", "%+v", twins[1])
		spy.mend()
	})
}

// A shadow drops no item.
func TestOnceEachWithShadow(t *testing.T) {
	all := items("k", "k", "", "")
	wantNil(t, newEngine(t, memstore.New()).OnceEach(bg, all, func(_ context.Context, fresh []int) error {
		for _, i := range fresh {
			all[i].Result = []byte("r")
		}
		return nil
	}, core.WithShadow()))
	for _, item := range all {
		check(t, item.Err == nil && !item.Duplicate && string(item.Result) == "r", "%+v", item)
	}
}

func TestOnceEachRefusesBadInput(t *testing.T) {
	eng, ctx := newEngine(t, memstore.New()), t.Context()
	never := func(context.Context, []int) error { t.Error("it ran"); return nil }
	for name, err := range map[string]error{
		"no function":  eng.OnceEach(ctx, items("a"), nil),
		"too many":     eng.OnceEach(ctx, make([]core.Item, 1001), never),
		"wrong option": eng.OnceEach(ctx, items("a"), never, core.WithTTL(-1)),
		"an executor":  eng.OnceEach(ctx, items("a"), never, core.WithExecutor(newBook())),
	} {
		wantIs(t, name, err, core.ErrInvalidOption)
	}
	wantNil(t, eng.OnceEach(ctx, nil, never))
	wantOnly(t, newEngine(t, plain{memstore.New()}).OnceEach(ctx, items("a"), never), errors.ErrUnsupported)
	long := items(strings.Repeat("x", 10_000), "good")
	err := eng.OnceEach(ctx, long, func(context.Context, []int) error { return nil })
	check(t, err == nil && errors.Is(long[0].Err, core.ErrInvalidKey) && long[1].Err == nil, "%v, %+v", err, long)
}

// A thousand twins wait for the first one, in its process and in another, and
// have its result at once, each one a copy of its own.
func TestTwinsGetTheResultTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs, ledgerTrip = 5 * time.Second, 10 * time.Millisecond
		near := newSpy()
		far := near.peer()
		near.onAcquire, far.onAcquire = taking(ledgerTrip), taking(ledgerTrip)
		seen := &recorder{}
		engines := []*core.Engine{newEngine(t, near, core.WithHooks(seen.hooks(t, ""))), newEngine(t, far)}
		right, wrong := core.WithFingerprint([]byte("right")), core.WithFingerprint([]byte("wrong"))
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			out, err := engines[0].Once(bg, "k", func(context.Context) ([]byte, error) { time.Sleep(runs); return []byte("result"), nil }, right)
			check(t, err == nil && !out.Duplicate, "the first: %+v, %v", out, err)
			out.Result[0] = 'X' // it is the caller's
		})
		time.Sleep(time.Second)
		for i := range 2000 {
			all.Go(func() {
				eng := engines[i%2]
				if i%10 == 0 {
					wantOnly(t, errOf(eng.Once(bg, "k", neverRuns, wrong)), core.ErrFingerprintMismatch)
					return
				}
				out, err := eng.Once(bg, "k", neverRuns, right)
				check(t, err == nil && out.Duplicate && string(out.Result) == "result", "%+v, %v", out, err)
				check(t, time.Since(began) <= runs+5*ledgerTrip, "a twin was answered after %v", time.Since(began))
				clear(out.Result) // the caller's, too
			})
		}
		all.Wait()
		check(t, near.requests() <= 4 && far.requests() <= 4, "the store was asked %d and %d times", near.requests(), far.requests())
		wantNothingLeft(t, engines...)
		wantEqual(t, "duplicates that observers saw", seen.count("OnceEnd k duplicate ok"), 800)
		wantEqual(t, "acquisitions, one with a lease", seen.count("AcquireEnd k ok"), 1001)
	})
}
