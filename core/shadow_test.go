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

// rehearsals notes how long calls would have waited, and what they would have got.
type rehearsals struct {
	mu    sync.Mutex
	began map[string]time.Time // by rule
	waits map[string]time.Duration
	errs  map[string]error
	held  map[string]time.Duration
	real  int
}

func newRehearsals() *rehearsals {
	return &rehearsals{
		began: map[string]time.Time{}, waits: map[string]time.Duration{}, errs: map[string]error{}, held: map[string]time.Duration{},
	}
}

func (r *rehearsals) hooks() observe.Hooks {
	return observe.Hooks{
		AcquireStart: func(ctx context.Context, a observe.Acquisition) context.Context {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.began[a.Rule] = time.Now(); !a.Shadow {
				r.real++
			}
			return ctx
		},
		AcquireEnd: func(_ context.Context, a observe.Acquisition, _ observe.Lease, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.waits[a.Rule], r.errs[a.Rule] = time.Since(r.began[a.Rule]), err
		},
		HoldEnd: func(_ context.Context, l observe.Lease, _ error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.held[l.Rule()] = time.Since(r.began[l.Rule()]) - r.waits[l.Rule()]
		},
	}
}

// TestShadowRehearses the waits, refusals and holds that the rule would have caused in two
// processes, while every function runs at once.
func TestShadowRehearses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		r := newRehearsals()
		engines := []*core.Engine{newEngine(t, mem, core.WithHooks(r.hooks())), newEngine(t, mem.Peer(), core.WithHooks(r.hooks()))}
		began := time.Now()
		for i, rule := range []string{"first", "second", "third", "hurried", "impatient"} {
			go func() {
				opts := []core.CallOption{core.WithShadow(), core.WithRule(rule)}
				ctx := bg
				switch rule {
				case "hurried":
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(bg, 3*time.Second)
					defer cancel()
				case "impatient":
					opts = append(opts, core.WithFailFast())
				}
				err := engines[i%2].Do(ctx, "k", func(ctx context.Context) error {
					check(t, time.Since(began) == time.Duration(i)*time.Second, "%s ran after %v", rule, time.Since(began))
					check(t, core.AssertHeld(ctx, core.Exclusive("k")) != nil, "%s has the key", rule)
					time.Sleep(10 * time.Second)
					return nil
				}, opts...)
				check(t, err == nil, "%s: %v", rule, err)
			}()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		for rule, want := range map[string]time.Duration{"first": 0, "second": 9 * time.Second, "third": 18 * time.Second} {
			if r.waits[rule] != want || r.held[rule] != 10*time.Second || r.errs[rule] != nil {
				t.Errorf("%s would have waited %v and held %v, %v", rule, r.waits[rule], r.held[rule], r.errs[rule])
			}
		}
		if !errors.Is(r.errs["hurried"], context.DeadlineExceeded) || r.waits["hurried"] != 3*time.Second {
			t.Errorf("hurried: %v after %v", r.errs["hurried"], r.waits["hurried"])
		}
		if !errors.Is(r.errs["impatient"], core.ErrHeld) || r.real > 0 {
			t.Errorf("impatient: %v; %d real acquisitions", r.errs["impatient"], r.real)
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
			if err != call.err || string(out.Result) != call.result || out.Duplicate {
				t.Errorf("call %d: %+v, %v", i, out, err)
			}
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
		r := newRehearsals()
		eng := newEngine(t, mem, core.WithHooks(r.hooks()))
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
			if info, err := mem.Inspect(bg, "%shadow:b"); err != nil || len(info.Holders) != 0 {
				t.Errorf("%+v, %v", info, err)
			}
		}, core.Exclusive("a"))
		_ = eng.Do(bg, "a", func(ctx context.Context) error {
			shadow(ctx, "under a lease", nothing, core.Exclusive("a"))
			return nil
		}, core.WithRule("real"))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		check(t, len(r.waits) == 4 && r.waits["more"] == 0 && r.waits["stranger"] != 0, "would have waited: %v", r.waits)
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
		if err := eng.Close(bg); err != nil || time.Since(began) > time.Second {
			t.Errorf("Close took %v: %v", time.Since(began), err)
		}
		wantNil(t, eng.Do(bg, "k", noWork, core.WithShadow()))
		time.Sleep(time.Hour)
	})
}

func TestShadowIsRefusedWhereALeaseIsReturned(t *testing.T) {
	eng := newEngine(t, newSpy())
	_, acquire := eng.Acquire(bg, "k", core.WithShadow())
	_, try := eng.TryAcquire(bg, "k", core.WithShadow())
	_, set := eng.AcquireAll(bg, []core.Claim{core.Exclusive("k")}, core.WithShadow())
	_, once := eng.Once(bg, "k", func(context.Context) ([]byte, error) { return nil, nil }, core.WithShadow(), core.WithExecutor(nowhere{}))
	lead := eng.Lead(bg, "k", noWork, core.WithShadow())
	for i, err := range []error{acquire, try, set, once, lead} {
		check(t, errors.Is(err, core.ErrInvalidOption), "%d: %v", i, err)
	}
}

// TestShadowOfALongKey: its shadow's key is not too long, and not another key's.
func TestShadowOfALongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRehearsals()
		eng := newEngine(t, memstore.New(), core.WithHooks(r.hooks()))
		long := strings.Repeat("x", driver.MaxKeyBytes-1)
		for _, key := range []string{long + "1", long + "2", ""} {
			go func() {
				_ = eng.Do(bg, key, func(context.Context) error { time.Sleep(time.Second); return nil }, core.WithShadow(), core.WithRule(key))
			}()
		}
		time.Sleep(time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.errs[long+"1"] != nil || r.errs[long+"2"] != nil || r.waits[long+"2"]+r.waits[long+"1"] != 0 || !errors.Is(r.errs[""], core.ErrInvalidKey) {
			t.Errorf("%v, waits %v", r.errs, r.waits)
		}
	})
}
