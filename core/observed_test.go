package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/store/memstore"
)

// How often the store was asked goes by its answers, and 0 says that there was no
// need to, or no way.
func TestAttempts(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(t *testing.T, eng, other *core.Engine, s *spy) error
		want int
		err  error
	}{
		"free": {do: func(_ *testing.T, eng, _ *core.Engine, _ *spy) error { return eng.Do(bg, "k", noWork) }, want: 1},
		"told to wait, and granted": {do: func(t *testing.T, eng, other *core.Engine, _ *spy) error {
			l := mustAcquire(t, other, "k")
			time.AfterFunc(time.Second, func() { mustRelease(t, l) })
			return eng.Do(bg, "k", noWork)
		}, want: 2},
		"told to wait three times, and no more": {do: func(t *testing.T, eng, other *core.Engine, s *spy) error {
			defer mustRelease(t, mustAcquire(t, other, "k"))
			s.onAcquire = func(_ context.Context, req driver.Request) error {
				req.OnHeld(core.HeldError{Key: "k"})
				req.OnHeld(core.HeldError{Key: "k"})
				return nil
			}
			return eng.Do(bg, "k", noWork, core.WithMaxWait(time.Second))
		}, want: 3, err: core.ErrWaitTimeout},
		"a wait that ends in line": {do: func(t *testing.T, eng, _ *core.Engine, _ *spy) error {
			defer mustRelease(t, mustAcquire(t, eng, "k"))
			err := eng.Do(bg, "k", noWork, core.WithMaxWait(time.Millisecond))
			held := (*core.HeldError)(nil)
			check(t, errors.As(err, &held) && held.Local, "%#v is not said to be of the line", err)
			return err
		}, err: core.ErrWaitTimeout},
		"nested": {do: func(t *testing.T, eng, _ *core.Engine, _ *spy) error {
			l := mustAcquire(t, eng, "k")
			defer mustRelease(t, l)
			return eng.Do(l.Context(), "k", noWork)
		}},
		"out, and run unlocked": {do: func(_ *testing.T, eng, _ *core.Engine, s *spy) error {
			s.onAcquire = func(context.Context, driver.Request) error { return errDown }
			return eng.Do(bg, "k", noWork, core.WithRunUnlocked())
		}, want: 1},
		"refused by an open circuit": {do: func(t *testing.T, eng, _ *core.Engine, s *spy) error {
			trip(t, eng, &outage{s})
			return eng.Do(bg, "k", noWork, core.WithFailFast())
		}, err: core.ErrCircuitOpen},
		"handed off": {do: func(t *testing.T, eng, _ *core.Engine, _ *spy) error {
			l := mustAcquire(t, eng, "k")
			time.AfterFunc(time.Millisecond, func() { mustRelease(t, l) })
			return eng.Do(bg, "k", noWork)
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			seen, s := &recorder{attempts: -1}, newSpy()
			eng := newEngine(t, s, core.WithHooks(seen.hooks(t, "")))
			if err := tc.do(t, eng, newEngine(t, s.Peer()), s); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			wantEqual(t, "attempts", seen.attempts, tc.want)
		})
	}
}

// Hooks are told of rules, by the name that their calls have, and of what is skipped under
// them; not of rules whose calls can't succeed.
func TestHooksAreToldOfRules(t *testing.T) {
	log := &recorder{}
	eng := newEngine(t, memstore.New(), core.WithHooks(log.hooks(t, "1")), core.WithHooks(log.hooks(t, "2")))
	grouped, err := core.NewPolicy(policy(t, core.WithRule("first")), core.WithRule("group"), core.WithHierarchy())
	must(t, err)
	declare := func(eng *core.Engine, p core.Policy, r coverage.Rule, like string) {
		t.Helper()
		wantNil(t, declared(eng, p, r, like))
		author.Skipped(bg, eng, p, coverage.SkipHeld)
	}
	declare(eng, grouped, coverage.Rule{Key: "g/{id}"}, "g/a")
	declare(newEngine(t, memstore.New()), grouped, coverage.Rule{Key: "k"}, "k") // it has no hooks
	wantOnly(t, declared(eng, grouped, coverage.Rule{Once: true}, "g/a"), core.ErrInvalidOption)
	wantOnly(t, declared(eng, grouped, coverage.Rule{}, "g//a"), core.ErrInvalidClaim)
	want := []string{
		"1Declared group, serialize hierarchy g/{id} on memory: [{g shared 0 } {g/a exclusive 0 }]",
		"2Declared group, serialize hierarchy g/{id} on memory: [{g shared 0 } {g/a exclusive 0 }]",
		"1Skipped group on memory: held", "2Skipped group on memory: held",
	}
	check(t, slices.Equal(log.events, want), "seen\n%q, want\n%q", log.events, want)
}

// What a rule does follows from its policy and from the engine's defaults.
func TestDeclaredRulesHaveTheEnginesDefaults(t *testing.T) {
	eng := newEngine(t, memstore.New(), core.WithResultLimit(7), core.WithRunUnlocked())
	for name, tc := range map[string]struct {
		opts []core.CallOption
		rule coverage.Rule
		want coverage.Rule
	}{
		"the engine's": {rule: coverage.Rule{Once: true}, want: coverage.Rule{Once: true, ResultLimit: 7, RunUnlocked: true}},
		"its own": {
			opts: []core.CallOption{core.WithResultLimit(0)},
			rule: coverage.Rule{Once: true, Key: "k"}, want: coverage.Rule{Once: true, Key: "k", RunUnlocked: true},
		},
		"no result": {rule: coverage.Rule{Skips: coverage.SkipHeld}, want: coverage.Rule{Skips: coverage.SkipHeld, RunUnlocked: true}},
	} {
		got, err := author.Declare(eng, author.Rule{Policy: policy(t, tc.opts...), About: tc.rule, Like: []string{"k"}})
		check(t, err == nil && got == tc.want, "%s: %+v, %v; want %+v", name, got, err, tc.want)
	}
}

// Once needs a store that keeps records, and so do rules with it, or with versions.
func TestOnceNeedsALedger(t *testing.T) {
	eng := newEngine(t, plain{memstore.New()})
	wantOnly(t, errOf(eng.Once(bg, "k", nothing)), errors.ErrUnsupported)
	for _, r := range []coverage.Rule{{Once: true}, {Skips: coverage.SkipSuperseded}} {
		wantOnly(t, declared(eng, core.Policy{}, r, "k"), errors.ErrUnsupported)
	}
	wantNil(t, declared(eng, core.Policy{}, coverage.Rule{}, "k"))
}

// TestKeyFilter: no log line, hook or error has a key of the program, whatever happens; and they
// have what the filter makes of it.
func TestKeyFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said bytes.Buffer
		say := func(what string, of ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&said, "%s: %+v\n", what, of)
		}
		fails := func(what string, err error) {
			check(t, err != nil, "%s: no error", what)
			var held *core.HeldError
			var lost *core.LeaseLostError
			errors.As(err, &held)
			errors.As(err, &lost)
			say(what, err, held, lost)
		}
		var all observe.Hooks
		for _, name := range hookNames() {
			setHook(&all, name, func(args []any) any {
				ctx := args[0]
				for i, arg := range args {
					switch v := arg.(type) {
					case context.Context:
						args[i] = nil
					case observe.Lease:
						args[i] = v.Claims()
					}
				}
				if name != "StoreCalled" { // whose error is the store's own
					say(name, args...)
				}
				if name == "Trace" {
					return ""
				}
				return ctx
			})
		}
		opts := []core.EngineOption{
			core.WithHooks(all),
			core.WithKeyFilter(func(key string) string { return strings.ReplaceAll(key, "ann", "***") }),
			core.WithLogger(slog.New(slog.NewTextHandler(writer(func(line []byte) { say("log", string(line)) }), nil))),
		}
		_, _, errs := wholeLife(t, opts...)
		for _, err := range slices.DeleteFunc(errs, func(err error) bool { return err == nil }) {
			fails("error", err)
		}
		eng := newEngine(t, newSpy(), append(opts, core.WithMaxWaiters(1))...)
		l := mustAcquire(t, eng, "user:ann")
		wantEqual(t, "what the program itself sees", l.Key(), "user:ann")
		go func() { fails("wait", eng.Do(bg, "user:ann", noWork, core.WithMaxWait(time.Second))) }()
		synctest.Wait()
		fails("too many", eng.Do(bg, "user:ann", noWork))
		time.Sleep(2 * time.Second)
		fails("circle of once", errOf(eng.Once(l.Context(), "user:ann", nothing)))
		fails("circle with another process", errOf(eng.Once(carry.Accept(bg, carry.Leases(l.Context())), "user:ann", nothing)))
		fails("force", errOf(eng.ForceRelease(bg, "user:ann", "a test", driver.Holder{Owner: "x", Token: 1})))
		const bad = "user:ann\x00"
		fails("bad key", errors.Join(eng.Do(bg, bad, noWork), errOf(eng.Inspect(bg, bad)), errOf(eng.Forget(bg, bad, "a test")), errOf(eng.AdvanceVersion(bg, bad, 1))))
		wantNil(t, eng.Do(bg, bad, noWork, core.WithShadow()))
		for _, err := range eng.List(bg, bad) {
			fails("bad prefix", err)
		}
		fails("no JSON", errOf(core.Once(bg, eng, "ann", func(context.Context) (chan int, error) { return nil, nil })))
		wantNil(t, errOf(eng.Once(bg, "ann", counted("no JSON either", new(int)))))
		fails("other type", errOf(core.Once[int](bg, eng, "ann", func(context.Context) (int, error) { return 0, nil })))
		fails("bad set", eng.DoAll(bg, exclusive("ann", "ann", "ann{"), noWork))
		gone := callerFor(t, 0, -1)
		fails("gone", eng.Do(gone, "user:ann", noWork))
		under, release := l.Attach(gone)
		defer release()
		fails("gone nested", eng.Do(under, "user:ann", noWork))
		mustRelease(t, l)
		once := func(content string) error {
			return errOf(eng.Once(bg, "msg:ann", counted("r", new(int)), core.WithFingerprint([]byte(content)), core.WithResultLimit(0)))
		}
		wantNil(t, once("a"))
		fails("other content", once("b"))
		fails("no result", once("a"))
		if had, err := eng.Forget(bg, "msg:ann", "a test"); err != nil || !had {
			t.Error(had, err)
		}

		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(said.String()) {
			check(t, !strings.Contains(line, "ann"), "said %q", line)
		}
		for _, want := range []string{"Blocked: [<nil> {Claims:[{Key:user:***", "Owed: ", "Forced: [<nil> {Key:***:k", "Forced: [<nil> {Key:msg:***", "bad set: ", "key=***:k"} {
			check(t, strings.Contains(said.String(), want), "nothing said %q", want)
		}
		wantEqual(t, "shown", eng.ShowKey("ann"), "***")
	})
}

// writer calls a function with what is written.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// described is a store that describes itself otherwise.
type described struct {
	driver.Store
	change func(*driver.Description)
}

func (d described) Describe() driver.Description {
	about := d.Store.Describe()
	d.change(&about)
	return about
}
