package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

func newLate(t *testing.T, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	eng, err := core.NewLate(opts...)
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(bg) })
	return eng
}

// TestLateRefusesUntilItHasAStore, however long that takes, and works as any engine afterwards.
func TestLateRefusesUntilItHasAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, p := newLate(t), policy(t, core.WithRule("r"))
		nobody := func(context.Context) error { t.Error("ran"); return nil }
		for range 10 { // the circuit would be open after two seconds
			for _, err := range []error{
				errOf(eng.Acquire(bg, "k")), errOf(eng.TryAcquire(bg, "k", core.WithRunUnlocked())), errOf(eng.Once(bg, "k", neverRuns)),
				errOf(eng.AdvanceVersion(bg, "k", 1)), errOf(eng.Inspect(bg, "k")), eng.Do(bg, "k", nobody, p), eng.Ping(bg),
				eng.DoAll(bg, []core.Claim{core.Shared("a"), core.Permit("b", 2)}, nobody, core.WithLinger(0)),
			} {
				check(t, errors.Is(err, core.ErrNoStore) && errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrCircuitOpen), "%v", err)
			}
			time.Sleep(time.Second)
		}
		ran := false
		if err := eng.Do(bg, "k", func(context.Context) error { ran = true; return nil }, core.WithRunUnlocked()); err != nil || !ran {
			t.Errorf("told to run unlocked: %v", err)
		}
		must(t, eng.Bind(memstore.New()))
		wantNil(t, eng.OnceEach(bg, []core.Item{{Key: "o"}}, func(context.Context, []int) error { return nil }))
		wantNil(t, eng.Do(bg, "k", noWork, p))
		wantOnly(t, eng.Bind(memstore.New()), core.ErrInvalidOption)
	})
}

// TestBindChecksWhatWasDeclared: a store that does not suit is refused with every reason, and another
// may follow.
func TestBindChecksWhatWasDeclared(t *testing.T) {
	log, text := &recorder{}, &bytes.Buffer{}
	eng := newLate(t, core.WithHooks(observe.Hooks{Declared: func(observe.Declaration) { t.Error("hooks are told of a rule before there is a store") }}))
	for name, opts := range map[string][]core.CallOption{"short": {core.WithTTL(50 * time.Millisecond)}, "held": {core.WithMinHold(time.Second)}} {
		p := policy(t, append(opts, core.WithRule(name))...)
		wantNil(t, declared(eng, p, coverage.Rule{Key: "k"}, "k"))
		if err := eng.Do(bg, "k", noWork, p); !errors.Is(err, core.ErrNoStore) {
			t.Errorf("%s: %v", name, err) // and the policy has seen the engine without a store
		}
	}
	// Long leases that end when they are released.
	err := eng.Bind(described{newSpy(), func(d *driver.Description) { d.MinHold, d.TTLs = false, driver.TTLs{Least: time.Second} }})
	check(t, errors.Is(err, errors.ErrUnsupported) && errors.Is(err, core.ErrInvalidOption) && strings.Contains(err.Error(), `rule for "short"`), "%v", err)
	wantOnly(t, eng.Bind(nil), core.ErrInvalidOption)
	eng = newLate(t, core.WithHooks(log.hooks(t, "")), core.WithLogger(slog.New(slog.NewTextHandler(text, nil))))
	wantNil(t, declared(eng, policy(t, core.WithRule("held"), core.WithMinHold(time.Second)), coverage.Rule{}, "k"))
	must(t, eng.Bind(keeping(newSpy())))
	check(t, slices.ContainsFunc(log.events, func(e string) bool { return strings.HasPrefix(e, "Declared held") }) && strings.Contains(text.String(), "least_hold=2s"), "%q, %s", log.events, text)
}

// TestLeadBeforeBind: a campaign goes by what the store can keep that came meanwhile.
func TestLeadBeforeBind(t *testing.T) {
	for want, opt := range map[error]core.CallOption{
		nil: core.WithTTL(2500 * time.Millisecond), core.ErrInvalidOption: core.WithTTL(time.Second), errors.ErrUnsupported: core.WithMinHold(time.Minute),
	} {
		synctest.Test(t, func(t *testing.T) {
			eng, led := newLate(t), make(chan error, 1)
			go func() {
				led <- eng.Lead(bg, "k", func(ctx context.Context) error {
					l, _ := core.LeaseFrom(ctx)
					wantEqual(t, "TTL", l.TTL(), 3*time.Second)
					return nil
				}, opt)
			}()
			synctest.Wait()
			must(t, eng.Bind(described{newSpy(), func(d *driver.Description) {
				d.MinHold, d.TTLs = false, driver.TTLs{Least: 2 * time.Second, Step: time.Second}
			}}))
			wantIs(t, "Lead", <-led, want)
		})
	}
}

// TestBindAfterClose leaves the store to its owner.
func TestBindAfterClose(t *testing.T) {
	eng, store := newLate(t), memstore.New()
	must(t, eng.Close(bg))
	wantOnly(t, eng.Bind(store), core.ErrClosed)
	wantOnly(t, errOf(eng.Acquire(bg, "k")), core.ErrClosed)
	wantNil(t, newEngine(t, store).Close(bg))
}

// TestBindBesideCalls: callers are refused or served, and Close closes the store if Bind took it.
func TestBindBesideCalls(t *testing.T) {
	for range 20 {
		eng, p := newLate(t), policy(t, core.WithRule("r"))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 50 {
					err := eng.Do(bg, "k", noWork, p)
					if err != nil && !errors.Is(err, core.ErrNoStore) && !errors.Is(err, core.ErrClosed) {
						t.Error(err)
					}
				}
			})
		}
		store := memstore.New()
		var bound error
		all.Go(func() { bound = eng.Bind(store) })
		all.Go(func() { _ = eng.Close(bg) })
		all.Wait()
		_, err := store.Acquire(bg, driver.Request{Owner: "o", Claims: []core.Claim{core.Exclusive("z")}, TTL: time.Second})
		if closed := errors.Is(err, core.ErrClosed); closed != (bound == nil) {
			t.Errorf("Bind returned %v, and the store says %v", bound, err)
		}
		if bound != nil {
			_ = store.Close()
		}
	}
}
