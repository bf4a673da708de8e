package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
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
		"not asked, because a release is owed": {do: func(t *testing.T, eng, _ *core.Engine, s *spy) error {
			l := mustAcquire(t, eng, "k")
			s.change(func() { s.onRelease = func(context.Context, driver.Grant) error { return errDown } })
			defer s.mend()
			owe(t, l)
			return eng.Do(bg, "k", noWork, core.WithFailFast())
		}, err: core.ErrUnavailable},
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
			calls := slices.DeleteFunc(seen.events, func(event string) bool { return !strings.HasPrefix(event, "StoreCalled memory acquire") })
			wantEqual(t, "requests that hooks were told of", len(calls), s.requests())
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
