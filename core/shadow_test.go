package core_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// rehearsal is what a call would have waited for, got and held.
type rehearsal struct {
	began      time.Time
	wait, held time.Duration
	err        error
	real       bool
}

// rehearse notes the calls of an engine by their rule.
func rehearse() (map[string]*rehearsal, core.EngineOption) {
	var mu sync.Mutex
	seen := make(map[string]*rehearsal)
	note := func(rule string, what func(*rehearsal)) {
		mu.Lock()
		defer mu.Unlock()
		if seen[rule] == nil {
			seen[rule] = new(rehearsal)
		}
		what(seen[rule])
	}
	return seen, core.WithHooks(observe.Hooks{
		AcquireStart: func(ctx context.Context, a observe.Acquisition) context.Context {
			note(a.Rule, func(r *rehearsal) { r.began, r.real = time.Now(), !a.Shadow })
			return ctx
		},
		AcquireEnd: func(_ context.Context, a observe.Acquisition, _ observe.Lease, err error) {
			note(a.Rule, func(r *rehearsal) { r.wait, r.err = time.Since(r.began), err })
		},
		HoldEnd: func(_ context.Context, l observe.Lease, _ error) {
			note(l.Rule(), func(r *rehearsal) { r.held = time.Since(r.began) - r.wait })
		},
	})
}

// TestShadowRehearses the waits, refusals and holds that the rule would have caused in two
// processes, while every function runs at once.
func TestShadowRehearses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 10 * time.Second
		mem := memstore.New()
		seen, hooks := rehearse()
		engines := []*core.Engine{newEngine(t, mem, hooks), newEngine(t, mem.Peer(), hooks)}
		began := time.Now()
		calls := []struct {
			rule       string
			deadline   time.Duration
			opts       []core.CallOption
			wait, held time.Duration
			err        error
		}{
			{rule: "first", held: takes},
			{rule: "second", wait: 9 * time.Second, held: takes},
			{rule: "third", wait: 18 * time.Second, held: takes},
			{rule: "hurried", deadline: 3 * time.Second, wait: 3 * time.Second, err: context.DeadlineExceeded},
			{rule: "impatient", opts: []core.CallOption{core.WithFailFast()}, err: core.ErrHeld},
		}
		for i, call := range calls {
			go func() {
				wantNil(t, engines[i%2].Do(callerFor(t, call.deadline, 0), "k", func(ctx context.Context) error {
					wantEqual(t, call.rule+" ran after", time.Since(began), time.Duration(i)*time.Second)
					check(t, core.AssertHeld(ctx, core.Exclusive("k")) != nil, "%s has the key", call.rule)
					time.Sleep(takes)
					return nil
				}, append(call.opts, core.WithShadow(), core.WithRule(call.rule))...))
			}()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, call := range calls {
			got := seen[call.rule]
			if wantIs(t, call.rule, got.err, call.err); got.wait != call.wait || got.held != call.held || got.real {
				t.Errorf("%s would have waited %v and held %v; real: %v", call.rule, got.wait, got.held, got.real)
			}
		}
	})
}

// TestShadowOfOnce: every call runs and gets its own result. The record says what would have been
// replayed, refused, or run.
func TestShadowOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		eng := newEngine(t, memstore.New(), core.WithHooks(observe.Hooks{OnceEnd: func(_ context.Context, x observe.Execution, out observe.Outcome, err error) {
			switch {
			case !x.Shadow:
				seen = append(seen, "real")
			case errors.Is(err, core.ErrFingerprintMismatch):
				seen = append(seen, "mismatch")
			case errors.Is(err, core.ErrResultNotKept):
				seen = append(seen, "not kept")
			case out.Duplicate:
				seen = append(seen, "replay")
			case err != nil:
				seen = append(seen, "failed")
			default:
				seen = append(seen, "ran")
			}
		}}))
		own := errors.New("own")
		for i, call := range []struct {
			key, content, result string
			err                  error
			saw                  string
		}{
			{"k", "a", "", own, "failed"},
			{"k", "a", "r1", nil, "ran"},
			{"k", "a", "r2", nil, "replay"},
			{"k", "b", "r3", nil, "mismatch"},
			{"large", "a", strings.Repeat("x", 20), nil, "ran"},
			{"large", "a", "r", nil, "not kept"},
			{"skipped", "a", "r", core.ErrSkipResult, "ran"},
			{"skipped", "a", "r", nil, "not kept"},
		} {
			out, err := eng.Once(bg, call.key, func(context.Context) ([]byte, error) {
				time.Sleep(time.Second)
				return []byte(call.result), call.err
			}, core.WithShadow(), core.WithFingerprint([]byte(call.content)), core.WithResultLimit(10))
			synctest.Wait()
			if call.err == core.ErrSkipResult {
				call.err = nil
			}
			check(t, err == call.err && string(out.Result) == call.result && !out.Duplicate, "call %d: %+v, %v", i, out, err)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(seen) != i+1 || seen[i] != call.saw {
				t.Fatalf("call %d: would have been %q, want %q", i, seen, call.saw)
			}
		}
	})
}

// TestShadowsNest as leases do: what a call would hold already is not rehearsed.
func TestShadowsNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		seen, hooks := rehearse()
		eng := newEngine(t, mem, hooks)
		shadow := func(ctx context.Context, rule string, fn func(context.Context), claims ...core.Claim) {
			wantNil(t, eng.DoAll(ctx, claims, func(ctx context.Context) error { fn(ctx); return nil }, core.WithShadow(), core.WithRule(rule)))
		}
		nothing := func(context.Context) { time.Sleep(time.Second) }
		shadow(bg, "outer", func(ctx context.Context) {
			synctest.Wait()
			shadow(ctx, "nested", nothing, core.Shared("a"))
			shadow(ctx, "more", nothing, core.Exclusive("a"), core.Exclusive("b"))
			shadow(bg, "stranger", nothing, core.Exclusive("a"))
			synctest.Wait()
			info, err := mem.Inspect(bg, "%shadow:b")
			check(t, err == nil && len(info.Holders) == 0, "%+v, %v", info, err)
		}, core.Exclusive("a"))
		_ = eng.Do(bg, "a", func(ctx context.Context) error {
			shadow(ctx, "under a lease", nothing, core.Exclusive("a"))
			return nil
		}, core.WithRule("real"))
		time.Sleep(time.Minute)
		synctest.Wait()
		check(t, len(seen) == 4 && seen["more"].wait == 0 && seen["stranger"].wait != 0, "would have waited: %+v", seen)
	})
}

// TestShadowEndsWithTheEngine, and with a panic of the function.
func TestShadowEndsWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, memstore.New())
		func() {
			defer func() { _ = recover() }()
			_ = eng.Do(bg, "k", func(context.Context) error { time.Sleep(time.Hour); panic("oh") }, core.WithShadow())
		}()
		began := time.Now() // its rehearsal takes another hour
		go func() {
			_ = eng.Do(bg, "k", func(context.Context) error { time.Sleep(time.Hour); return nil }, core.WithShadow())
		}()
		synctest.Wait()
		err := eng.Close(bg)
		check(t, err == nil && time.Since(began) <= time.Second, "Close took %v: %v", time.Since(began), err)
		wantNil(t, eng.Do(bg, "k", noWork, core.WithShadow()))
		time.Sleep(time.Hour)
	})
}

func TestShadowIsRefusedWhereALeaseIsReturned(t *testing.T) {
	eng := newEngine(t, newSpy())
	for i, err := range []error{
		errOf(eng.Acquire(bg, "k", core.WithShadow())), errOf(eng.TryAcquire(bg, "k", core.WithShadow())),
		errOf(eng.AcquireAll(bg, exclusive("k"), core.WithShadow())), eng.Lead(bg, "k", noWork, core.WithShadow()),
		errOf(eng.Once(bg, "k", nothing, core.WithShadow(), core.WithExecutor(nowhere{}))), errOf(eng.AdvanceVersion(bg, "k", 1, core.WithShadow())),
	} {
		check(t, errors.Is(err, core.ErrInvalidOption), "%d: %v", i, err)
	}
}

// TestShadowOfALongKey: its shadow's key is not too long, and not another key's.
func TestShadowOfALongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, hooks := rehearse()
		eng := newEngine(t, memstore.New(), hooks)
		long := strings.Repeat("x", driver.MaxKeyBytes-1)
		for _, key := range []string{long + "1", long + "2", ""} {
			go func() {
				_ = eng.Do(bg, key, func(context.Context) error { time.Sleep(time.Second); return nil }, core.WithShadow(), core.WithRule(key))
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantOnly(t, seen[""].err, core.ErrInvalidKey)
		for _, r := range []*rehearsal{seen[long+"1"], seen[long+"2"]} {
			check(t, r.err == nil && r.wait == 0, "%v after %v", r.err, r.wait)
		}
	})
}
