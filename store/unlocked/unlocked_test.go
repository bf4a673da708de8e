package unlocked_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/unlocked"
)

var (
	must    = checktest.Must
	check   = checktest.That
	wantNil = checktest.WantNil
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// counted is a store that must not be asked, but closed.
type counted struct {
	*memstore.Store
	asked, closed int
}

func (c *counted) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	c.asked++
	return c.Store.Acquire(ctx, req)
}

func (c *counted) Close() error {
	c.closed++
	return c.Store.Close()
}

// open makes an engine as a program does whose environment says so.
func open(t *testing.T, value string, store driver.Store) (*core.Engine, *bytes.Buffer) {
	t.Helper()
	t.Setenv(unlocked.Env, value)
	var said bytes.Buffer
	eng, err := core.New(unlocked.FromEnv(store, slog.New(slog.NewTextHandler(&said, nil))), core.WithMaxHold(core.Forever))
	must(t, err)
	t.Cleanup(func() {
		wantNil(t, eng.Close(ctx))
	})
	return eng, &said
}

func TestLocksUnlessTheEnvironmentSaysOtherwise(t *testing.T) {
	for value, want := range map[string]struct {
		locks bool
		says  string
	}{
		"":      {true, ""},
		"0":     {true, ""},
		"false": {true, ""},
		"yes":   {true, "level=ERROR"},
		"1":     {false, "level=WARN"},
		"true":  {false, "level=WARN"},
	} {
		t.Run(value, func(t *testing.T) {
			eng, said := open(t, value, memstore.New())
			check(t, strings.Contains(said.String(), want.says) && (want.says == "") == (said.Len() == 0), "said %q", said)
			first, err := eng.TryAcquire(ctx, "k")
			must(t, err)
			second, err := eng.TryAcquire(ctx, "k")
			locks := errors.Is(err, driver.ErrHeld)
			check(t, locks == want.locks, "the second one: %v", err)
			wantNil(t, first.Release(ctx))
			if second == nil {
				return
			}
			check(t, second.Token() > first.Token(), "tokens %d, %d", first.Token(), second.Token())
			wantNil(t, second.Release(ctx))
		})
	}
}

func TestLeasesAreAsEverToTheirHolders(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: memstore.New()}
		hooks := observe.Hooks{HoldEnd: func(_ context.Context, l observe.Lease, _ error) {
			check(t, l.Store() == "unlocked", "what is measured is said to be of %q", l.Store())
		}}
		eng, err := core.New(unlocked.FromEnv(store, slog.New(slog.DiscardHandler)), core.WithHooks(hooks))
		must(t, err)
		err = eng.Do(ctx, "k", func(ctx context.Context) error {
			time.Sleep(5 * time.Minute)
			return core.AssertHeld(ctx, core.Exclusive("k"))
		})
		wantNil(t, err)
		runs := 0
		for range 2 {
			out, err := eng.Once(ctx, "k", func(context.Context) ([]byte, error) { runs++; return []byte("r"), nil })
			check(t, err == nil && !out.Duplicate && string(out.Result) == "r", "%+v, %v", out, err)
		}
		wantNil(t, eng.Close(ctx))
		check(t, runs == 2 && store.asked == 0 && store.closed == 1, "Once ran %d times; the store was asked %d times and closed %d", runs, store.asked, store.closed)
	})
}

func TestTheLogSaysItEveryMinute(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		eng, err := core.New(unlocked.FromEnv(memstore.New(), slog.New(slog.NewTextHandler(&said, nil))))
		must(t, err)
		defer eng.Close(ctx)
		for range 150 { // 2.5 minutes
			must(t, eng.Do(ctx, "user:ann", func(context.Context) error { return nil }))
			time.Sleep(time.Second)
		}
		n := strings.Count(said.String(), "NOTHING IS LOCKED")
		check(t, n == 4 && strings.Contains(said.String(), "grants=60") && !strings.Contains(said.String(), "ann"), "said %d times:\n%s", n, &said)
	})
}

// A program that would not start with its locks does not start without them.
func TestStandInCanDoNoMoreThanTheStore(t *testing.T) {
	for name, tc := range map[string]struct {
		store driver.Store
		want  [5]bool // shared, permits, sets, ledger, inspector
	}{
		"none": {none{memstore.New()}, [5]bool{}},
		"some": {some{memstore.New()}, [5]bool{true, false, true, false, false}},
		"all":  {memstore.New(), [5]bool{true, true, true, true, true}},
	} {
		eng, _ := open(t, "1", tc.store)
		can := author.Describe(eng)
		got := [5]bool{can.Shared, can.Permits, can.Sets, can.Ledger, can.Inspector}
		check(t, got == tc.want, "%s: it can do %v, want %v", name, got, tc.want)
	}
}

type none struct{ driver.Store }

func (none) Describe() driver.Description { return driver.Description{} }

type some struct{ *memstore.Store }

func (some) Describe() driver.Description { return driver.Description{Shared: true, Sets: true} }

// TestAskedAgain is how a lease is downgraded: under the same token.
func TestAskedAgain(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	store := unlocked.FromEnv(memstore.New(), slog.New(slog.DiscardHandler))
	defer store.Close()
	ask := func(owner string, c driver.Claim) driver.Grant {
		t.Helper()
		g, err := store.Acquire(ctx, driver.Request{Owner: owner, Claims: []driver.Claim{c}, TTL: time.Minute})
		must(t, err)
		return g
	}
	first, other := ask("a", driver.Exclusive("k")), ask("b", driver.Exclusive("k"))
	again := ask("a", driver.Shared("k"))
	check(t, again.Token == first.Token && again.Claims[0] == driver.Shared("k") && other.Token > first.Token, "%+v, %+v, %+v", first, other, again)
	wantNil(t, store.Release(ctx, again))
	next := ask("a", driver.Exclusive("k"))
	check(t, next.Token > other.Token, "after its release the same owner got token %d", next.Token)
}

func TestNothingIsHeld(t *testing.T) {
	eng, _ := open(t, "1", memstore.New())
	l, err := eng.Acquire(ctx, "k")
	must(t, err)
	info, err := eng.Inspect(ctx, "k")
	check(t, err == nil && info.Key == "k" && len(info.Holders) == 0, "%+v, %v", info, err)
	for info, err := range eng.List(ctx, "") {
		t.Errorf("%+v, %v", info, err)
	}
	had, err := eng.ForceRelease(ctx, "k", "test")
	check(t, err == nil && len(had) == 0, "%v, %v", had, err)
	forgot, err := eng.Forget(ctx, "k", "test")
	check(t, err == nil && !forgot, "%v, %v", forgot, err)
	wantNil(t, l.Release(ctx))
}

func TestNothingIsAStoreNeither(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	_, err := core.New(unlocked.FromEnv(nil, nil))
	check(t, errors.Is(err, driver.ErrInvalidOption), "error %v", err)
}

func ExampleFromEnv() {
	// In a shell: KEYTURN_UNLOCKED=1 go run .
	eng, err := core.New(unlocked.FromEnv(memstore.New(), slog.Default()))
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
}
