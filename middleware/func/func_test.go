package lockfunc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/shadowtest"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, check, wantIs = checktest.Must, checktest.That, checktest.WantIs

type (
	job    struct{ ID, User string }
	caller struct{}
)

func byUser(j job) string { return "user:" + j.User }

func itself(key string) string { return key }

// wantOnly fails unless err matches all of want, and no other sentinel of core.
func wantOnly(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		check(t, errors.Is(err, w), "error %v, want one that matches %v", err, w)
	}
	check(t, len(want) != 0 || err == nil, "error %v, want none", err)
	for _, s := range []error{core.ErrHeld, core.ErrUnavailable, core.ErrInvalidKey, core.ErrInvalidOption, core.ErrLeaseLost, core.ErrResultNotKept} {
		check(t, slices.Contains(want, s) || !errors.Is(err, s), "error %v also matches %v", err, s)
	}
}

func TestSerializedFunction(t *testing.T) {
	own := errors.New("mine")
	for name, tc := range map[string]struct {
		user  string
		held  bool
		down  bool
		loses bool
		fn    error
		want  []error
		ran   bool
	}{
		"its own":             {user: "ann", fn: own, want: []error{own}, ran: true},
		"held":                {user: "ann", held: true, want: []error{core.ErrHeld}},
		"outage":              {user: "ann", down: true, want: []error{core.ErrUnavailable}},
		"bad key":             {user: "{ann}", want: []error{core.ErrInvalidKey}},
		"none":                {user: "ann", ran: true},
		"a lease's":           {user: "ann", fn: core.ErrLeaseLost, want: []error{core.ErrLeaseLost}, ran: true},
		"its own, and a loss": {user: "ann", fn: own, loses: true, want: []error{own, core.ErrLeaseLost}, ran: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			kit := locktest.New(t)
			ran := false
			run, err := lockfunc.Serialize(lockfunc.New(kit.Engine), "work", byUser, func(ctx context.Context, j job) (int, error) {
				ran = true
				wantIs(t, name, core.AssertHeld(ctx, core.Exclusive(byUser(j))), nil)
				if tc.loses {
					kit.Store.Lose("user:ann")
					time.Sleep(time.Minute) // until a renewal tells
				}
				return 7, tc.fn
			}, core.WithFailFast())
			must(t, err)
			if tc.held {
				defer ruletest.MustRelease(t, ruletest.MustAcquire(t, kit.Engine, "user:ann"))
			}
			if tc.down {
				kit.Store.Refuse()
			}
			got, err := run(context.Background(), job{User: tc.user})
			if (got == 7) != tc.ran || ran != tc.ran || tc.fn == own && !tc.loses && err != own {
				t.Errorf("%s: ran %v, result %d, %v", name, ran, got, err)
			}
			wantOnly(t, err, tc.want...)
		})
	}
}

func TestSerializeKeys(t *testing.T) {
	keys := func(ctx context.Context, groups []string) ([]string, error) {
		if len(groups) == 0 {
			return nil, nil
		}
		return append([]string{"user:" + ctx.Value(caller{}).(string)}, groups...), nil
	}
	work, err := lockfunc.SerializeKeys(lockfunc.New(locktest.New(t).Engine), "work", keys, func(ctx context.Context, _ []string) ([]string, error) {
		lease, _ := core.LeaseFrom(ctx)
		return driver.Keys(lease.Claims()), nil
	})
	must(t, err)
	ctx := context.WithValue(t.Context(), caller{}, "ann")
	if held, err := work(ctx, []string{"group:2", "group:1", "group:2"}); err != nil || !slices.Equal(held, []string{"group:1", "group:2", "user:ann"}) {
		t.Errorf("%v, %v", held, err)
	}
	wantIs(t, "no keys", checktest.ErrorOf(work(ctx, nil)), keytmpl.ErrMissingValue)
}

func TestErrorHandler(t *testing.T) {
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	kit := locktest.New(t)
	locks := lockfunc.New(kit.Engine).WithErrorHandler(func(_ context.Context, refused *reasons.Refusal) error {
		told = refused
		if refused.Reason == reasons.KeyInvalid {
			return nil
		}
		return busy
	})
	work, err := lockfunc.Serialize(locks, "work", itself, func(context.Context, string) (int, error) { return 0, own }, core.WithFailFast())
	must(t, err)
	if _, err := work(context.Background(), "k"); err != own || told != nil {
		t.Errorf("the function's own error: %v, %+v", err, told)
	}
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, kit.Engine, "k"))
	if _, err := work(context.Background(), "k"); err != busy || told == nil || told.Reason != reasons.LockHeld || told.Rule != "work" || told.Key != "k" || !errors.Is(told.Answer, core.ErrHeld) {
		t.Errorf("refused: %v, %+v", err, told)
	}
	wantIs(t, "the default", checktest.ErrorOf(work(context.Background(), "")), core.ErrInvalidKey)
}

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		decorate := lockfunc.Serialize[string, func()]
		if once {
			decorate = lockfunc.Once[string, func()]
		}
		run, err := decorate(lockfunc.New(eng), "work", itself,
			func(ctx context.Context, _ string) (func(), error) { return nil, handler(ctx) }, opts...) // func() can't be stored
		must(t, err)
		return func(id string) error { return checktest.ErrorOf(run(context.Background(), id)) }
	})
}

func TestFunctionsAreCheckedAtTheStart(t *testing.T) {
	locks := lockfunc.New(locktest.New(t).Engine)
	fn := func(context.Context, job) (int, error) { return 0, nil }
	must(t, checktest.ErrorOf(lockfunc.Serialize(locks, "taken", byUser, fn)))
	for name, tc := range map[string]struct {
		locks *lockfunc.Locks
		name  string
		key   func(job) string
		fn    func(context.Context, job) (int, error)
		opts  []core.CallOption
		says  []string
	}{
		"everything":   {says: []string{"an engine", "a name", "a key function", "a function"}},
		"no engine":    {lockfunc.New(nil), "new", byUser, fn, nil, []string{"an engine"}},
		"options":      {locks, "new", byUser, fn, []core.CallOption{core.WithTTL(0), nil}, []string{"WithTTL", "not nil"}},
		"a taken name": {locks, "taken", byUser, fn, nil, []string{"taken", "of its own"}},
	} {
		_, once := lockfunc.Once(tc.locks, tc.name, tc.key, tc.fn, tc.opts...)
		_, serialize := lockfunc.Serialize(tc.locks, tc.name, tc.key, tc.fn, tc.opts...)
		for _, err := range []error{once, serialize} {
			wantOnly(t, err, core.ErrInvalidOption)
			for _, want := range tc.says {
				check(t, strings.Contains(fmt.Sprint(err), want), "%s: %v does not say %q", name, err, want)
			}
		}
	}
	got := locks.Coverage()
	check(t, len(got) == 1, "what was refused is reported: %v", got)
}

func TestCoverageAndNamesOfFunctions(t *testing.T) {
	var asked, declared []string
	hooks := observe.Hooks{
		AcquireStart: func(ctx context.Context, a observe.Acquisition) context.Context {
			asked = append(asked, a.Rule)
			return ctx
		},
		Declared: func(d observe.Declaration) { declared = append(declared, d.Rule) },
	}
	locks := lockfunc.New(locktest.New(t, core.WithHooks(hooks)).Engine)
	fn := func(context.Context, job) (int, error) { return 0, nil }
	first, err := lockfunc.Serialize(locks, "deliver", byUser, fn, core.WithPermits(5))
	must(t, err)
	second, err := lockfunc.Once(locks, "charge", byUser, fn, core.WithRule("payments"))
	must(t, err)
	_, _ = first(context.Background(), job{})
	_, _ = second(context.Background(), job{})
	var lines []string
	for _, c := range locks.Coverage() {
		lines = append(lines, c.String())
	}
	if want := []string{"deliver: serialize permit of 5 func", "charge: once func"}; !slices.Equal(lines, want) {
		t.Errorf("coverage %q, want %q", lines, want)
	}
	// core.WithRule gives a rule another name for hooks.
	if want := []string{"deliver", "payments"}; !slices.Equal(asked, want) || !slices.Equal(declared, want) {
		t.Errorf("the hooks were told the rules %q, %q, want %q", asked, declared, want)
	}
	locks.Coverage()[0].Name = "mine"
	check(t, locks.Coverage()[0].Name == "deliver", "the list is not a copy")
}
