package core_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

var errHandler = errors.New("the handler's own")

// isFree fails unless key can be had at once.
func isFree(t *testing.T, eng *core.Engine, key string) {
	t.Helper()
	l, err := eng.TryAcquire(context.Background(), key)
	if err != nil {
		t.Fatalf("%q is not free: %v", key, err)
	}
	mustRelease(t, l)
}

func TestDoReturnsTheHandlersError(t *testing.T) {
	eng := newEngine(t, memstore.New())
	err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
		if l, ok := core.LeaseFrom(ctx); !ok || l.Token() == 0 || ctx != l.Context() {
			t.Error("the handler does not run under its lease")
		}
		return errHandler
	})
	if err != errHandler {
		t.Errorf("error %v", err)
	}
	isFree(t, eng, "k")
}

func TestDoReleasesOnPanicAndGoexit(t *testing.T) {
	eng := newEngine(t, memstore.New())
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = eng.Do(context.Background(), "k", func(context.Context) error { panic("boom") })
	}()
	isFree(t, eng, "k")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = eng.Do(context.Background(), "k", func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-done
	isFree(t, eng, "k")
}

// A handler that ignores its context keeps the key until it returns.
func TestDoHoldsUntilTheHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, memstore.New())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go func() {
			_ = eng.Do(ctx, "k", func(context.Context) error { time.Sleep(5 * time.Second); return nil })
		}()
		synctest.Wait()
		began := time.Now()
		mustRelease(t, mustAcquire(t, eng, "k"))
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("let in after %v", took)
		}
	})
}

func TestDoReportsALossWhateverTheHandlerSays(t *testing.T) {
	for name, own := range map[string]error{"success": nil, "an error": errHandler} {
		t.Run(name, func(t *testing.T) {
			spy := newSpy()
			eng := newEngine(t, spy)
			err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
				l, _ := core.LeaseFrom(ctx)
				breakLock(t, spy, l)
				return own
			})
			wantOnly(t, err, core.ErrLeaseLost)
			if own != nil && !errors.Is(err, own) {
				t.Errorf("%v hides the handler's error", err)
			}
		})
	}
}

func TestDoDoesNotFailForAnUnansweredRelease(t *testing.T) {
	spy := newSpy()
	eng := newEngine(t, spy)
	spy.onRelease = func(context.Context, driver.Grant) error { return errDown }
	defer spy.mend()
	ran := false
	if err := eng.Do(context.Background(), "k", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("ran %v, error %v: the work was done while the key was held", ran, err)
	}
}

// One bounded attempt to release is all that a caller waits for.
func TestUnansweredReleaseIsWaitedForOnce(t *testing.T) {
	none := func(context.Context) ([]byte, error) { return nil, nil }
	fails := func(context.Context) ([]byte, error) { return nil, errHandler }
	for name, call := range map[string]func(*core.Engine) error{
		"Do": func(eng *core.Engine) error {
			return eng.Do(context.Background(), "k", func(context.Context) error { return nil })
		},
		"Once":          func(eng *core.Engine) error { _, err := eng.Once(context.Background(), "k", none); return err },
		"Once, failing": func(eng *core.Engine) error { _, err := eng.Once(context.Background(), "k", fails); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				spy.onRelease = func(ctx context.Context, _ driver.Grant) error { <-ctx.Done(); return errDown }
				spy.onRecord = spy.onRelease
				eng := newEngine(t, spy, core.WithReleaseTimeout(2*time.Second))
				began := time.Now()
				_ = call(eng)
				if took := time.Since(began); took != 2*time.Second {
					t.Errorf("took %v", took)
				}
				spy.mend()
				time.Sleep(time.Minute) // the release is sent again before the engine closes: Close waits as long as one try, which may hang
			})
		})
	}
}

// Nothing runs unlocked but by an outage, and only where that was asked for.
func TestRunUnlocked(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		down error
		held bool
		opts []core.CallOption
		runs bool
	}{
		"outage, allowed":       {down: errDown, opts: []core.CallOption{core.WithRunUnlocked()}, runs: true},
		"outage, by default":    {down: errDown},
		"held, allowed":         {held: true, opts: []core.CallOption{core.WithRunUnlocked(), core.WithFailFast()}},
		"waited out, allowed":   {held: true, opts: []core.CallOption{core.WithRunUnlocked(), core.WithMaxWait(time.Millisecond)}},
		"other error, allowed":  {down: errors.New("wrong type"), opts: []core.CallOption{core.WithRunUnlocked()}},
		"caller gone, allowed":  {ctx: ended, down: errDown, opts: []core.CallOption{core.WithRunUnlocked()}},
		"invalid key, allowed ": {down: &core.KeyError{}, opts: []core.CallOption{core.WithRunUnlocked()}},
	} {
		t.Run(name, func(t *testing.T) {
			spy := newSpy()
			seen := &recorder{}
			eng := newEngine(t, spy, core.WithHooks(seen.hooks()))
			if tc.held {
				defer mustRelease(t, mustAcquire(t, eng, "k"))
			}
			if tc.down != nil {
				spy.onAcquire = func(context.Context, driver.Request) error { return tc.down }
			}
			ctx := tc.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			ran := false
			err := eng.Do(ctx, "k", func(context.Context) error { ran = true; return nil }, tc.opts...)
			if ran != tc.runs || (err == nil) != tc.runs {
				t.Errorf("Do: ran %v, error %v", ran, err)
			}
			ran = false
			spyBegin := &beginDown{spy: spy, down: tc.down}
			once := newEngine(t, spyBegin)
			if !tc.held {
				out, err := once.Once(ctx, "k", func(context.Context) ([]byte, error) { ran = true; return []byte("r"), nil }, tc.opts...)
				if ran != tc.runs || (err == nil) != tc.runs || out.Duplicate || (ran && string(out.Result) != "r") {
					t.Errorf("Once: ran %v, outcome %+v, error %v", ran, out, err)
				}
			}
			if unlocked := seen.count("unlocked") > 0; unlocked != tc.runs {
				t.Errorf("observer told of unlocked work: %v", unlocked)
			}
		})
	}
}

// beginDown is a store whose ledger is down; the closing of the spy is left to
// its own engine.
type beginDown struct {
	*spy
	down error
}

func (s *beginDown) Begin(context.Context, driver.Request) (driver.Grant, *driver.Record, error) {
	return driver.Grant{}, nil, s.down
}

func (s *beginDown) Close() error { return nil }

func TestDoAllNeedsNoSetForOneClaim(t *testing.T) {
	eng := newEngine(t, memstore.New())
	ran := false
	if err := eng.DoAll(context.Background(), []core.Claim{core.Exclusive("k")}, func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("ran %v, error %v", ran, err)
	}
	if err := eng.DoAll(context.Background(), []core.Claim{core.Exclusive("k")}, nil, core.WithTTL(0)); !errors.Is(err, core.ErrInvalidOption) {
		t.Errorf("error %v", err)
	}
}

// A caller whose deadline an outage used up has gone; the work has nobody.
func TestDeadlineInAnOutageDoesNotRunUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		eng := newEngine(t, spy)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := eng.Do(ctx, "k", func(context.Context) error {
			t.Error("ran")
			return nil
		}, core.WithRunUnlocked())
		wantOnly(t, err, core.ErrUnavailable)
	})
}

// A grant that came too late has gone to somebody else by now, who must not
// find company.
func TestLateGrantDoesNotRunUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, &lateStore{spy: newSpy(), by: 2 * time.Second})
		err := eng.Do(context.Background(), "k", func(context.Context) error {
			t.Error("ran")
			return nil
		}, core.WithTTL(time.Second), core.WithRunUnlocked())
		wantOnly(t, err, core.ErrUnavailable)
	})
}

// A deadline that leaves a store less than a tenth of a second makes no outage
// of one that is slow, however the store words it; a refusal does, at any time.
func TestHurryDoesNotRunUnlocked(t *testing.T) {
	slow := func(answer error) func(context.Context, driver.Request) error {
		return func(ctx context.Context, _ driver.Request) error {
			<-ctx.Done()
			if answer == nil {
				return ctx.Err()
			}
			return answer
		}
	}
	for name, tc := range map[string]struct {
		store func(context.Context, driver.Request) error
		opts  []core.CallOption
		runs  bool
	}{
		"slow":                {store: slow(errDown), opts: []core.CallOption{core.WithMaxWait(50 * time.Millisecond)}},
		"slow, fail-fast":     {store: slow(errDown), opts: []core.CallOption{policy(t, core.WithMaxWait(50*time.Millisecond)), core.WithFailFast()}},
		"slow and terse":      {store: slow(nil), opts: []core.CallOption{core.WithMaxWait(50 * time.Millisecond)}},
		"time enough":         {store: slow(errDown), opts: []core.CallOption{core.WithMaxWait(100 * time.Millisecond)}, runs: true},
		"time enough, terse":  {store: slow(nil), opts: []core.CallOption{core.WithMaxWait(100 * time.Millisecond)}, runs: true},
		"refused in no time":  {store: func(context.Context, driver.Request) error { return errDown }, opts: []core.CallOption{core.WithMaxWait(50 * time.Millisecond)}, runs: true},
		"fail-fast, for long": {store: slow(errDown), opts: []core.CallOption{core.WithFailFast()}, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spy := newSpy()
				spy.onAcquire = tc.store
				eng := newEngine(t, spy)
				ran := false
				err := eng.Do(context.Background(), "k", func(context.Context) error { ran = true; return nil },
					append(tc.opts, core.WithRunUnlocked())...)
				if ran != tc.runs {
					t.Errorf("ran %v, want %v", ran, tc.runs)
				}
				if !ran {
					wantOnly(t, err, core.ErrUnavailable)
				}
			})
		})
	}
}

// A caller that joins the line late, or becomes its head late, has left the store no time
// either.
func TestHurryInLineDoesNotRunUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy()
		spy.onAcquire = func(ctx context.Context, _ driver.Request) error { <-ctx.Done(); return errDown }
		eng := newEngine(t, spy)
		var all sync.WaitGroup
		for _, wait := range []time.Duration{80 * time.Millisecond, 50 * time.Millisecond, 90 * time.Millisecond, 140 * time.Millisecond} {
			all.Go(func() {
				err := eng.Do(context.Background(), "k", func(context.Context) error {
					t.Errorf("ran unlocked after %v", wait)
					return nil
				}, core.WithMaxWait(wait), core.WithRunUnlocked())
				wantOnly(t, err, core.ErrUnavailable)
			})
			synctest.Wait()
		}
		all.Wait()
	})
}
