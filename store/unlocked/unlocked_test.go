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
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/unlocked"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(ctx); err != nil {
			t.Error(err)
		}
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
			if !strings.Contains(said.String(), want.says) || (want.says == "") != (said.Len() == 0) {
				t.Errorf("said %q", said)
			}
			first, err := eng.TryAcquire(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			second, err := eng.TryAcquire(ctx, "k")
			if locks := errors.Is(err, driver.ErrHeld); locks != want.locks {
				t.Errorf("the second one: %v", err)
			}
			if err := first.Release(ctx); err != nil {
				t.Error(err)
			}
			if second == nil {
				return
			}
			if second.Token() <= first.Token() {
				t.Errorf("tokens %d, %d", first.Token(), second.Token())
			}
			if err := second.Release(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLeasesAreAsEverToTheirHolders(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: memstore.New()}
		hooks := observe.Hooks{HoldEnd: func(_ context.Context, l observe.Lease, _ error) {
			if l.Store() != "unlocked" {
				t.Errorf("what is measured is said to be of %q", l.Store())
			}
		}}
		eng, err := core.New(unlocked.FromEnv(store, slog.New(slog.DiscardHandler)), core.WithHooks(hooks))
		if err != nil {
			t.Fatal(err)
		}
		err = eng.Do(ctx, "k", func(ctx context.Context) error {
			time.Sleep(5 * time.Minute)
			return core.AssertHeld(ctx, core.Exclusive("k"))
		})
		if err != nil {
			t.Error(err)
		}
		runs := 0
		for range 2 {
			out, err := eng.Once(ctx, "k", func(context.Context) ([]byte, error) { runs++; return []byte("r"), nil })
			if err != nil || out.Duplicate || string(out.Result) != "r" {
				t.Errorf("%+v, %v", out, err)
			}
		}
		if err := eng.Close(ctx); err != nil {
			t.Error(err)
		}
		if runs != 2 || store.asked != 0 || store.closed != 1 {
			t.Errorf("Once ran %d times; the store was asked %d times and closed %d", runs, store.asked, store.closed)
		}
	})
}

func TestTheLogSaysItEveryMinute(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		eng, err := core.New(unlocked.FromEnv(memstore.New(), slog.New(slog.NewTextHandler(&said, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close(ctx)
		for range 150 { // 2.5 minutes
			if err := eng.Do(ctx, "k", func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(said.String(), "NOTHING IS LOCKED"); n != 4 || !strings.Contains(said.String(), "grants=60") {
			t.Errorf("said %d times:\n%s", n, &said)
		}
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
		if got := [5]bool{can.Shared, can.Permits, can.Sets, can.Ledger, can.Inspector}; got != tc.want {
			t.Errorf("%s: it can do %v, want %v", name, got, tc.want)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first, other := ask("a", driver.Exclusive("k")), ask("b", driver.Exclusive("k"))
	again := ask("a", driver.Shared("k"))
	if again.Token != first.Token || again.Claims[0] != driver.Shared("k") || other.Token <= first.Token {
		t.Errorf("%+v, %+v, %+v", first, other, again)
	}
	if err := store.Release(ctx, again); err != nil {
		t.Error(err)
	}
	if next := ask("a", driver.Exclusive("k")); next.Token <= other.Token {
		t.Errorf("after its release the same owner got token %d", next.Token)
	}
}

func TestNothingIsHeld(t *testing.T) {
	eng, _ := open(t, "1", memstore.New())
	l, err := eng.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := eng.Inspect(ctx, "k"); err != nil || info.Key != "k" || len(info.Holders) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
	for info, err := range eng.List(ctx, "") {
		t.Errorf("%+v, %v", info, err)
	}
	if had, err := eng.ForceRelease(ctx, "k", "test"); err != nil || len(had) > 0 {
		t.Errorf("%v, %v", had, err)
	}
	if had, err := eng.Forget(ctx, "k", "test"); err != nil || had {
		t.Errorf("%v, %v", had, err)
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestNothingIsAStoreNeither(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	if _, err := core.New(unlocked.FromEnv(nil, nil)); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("error %v", err)
	}
}

func ExampleFromEnv() {
	// In a shell: KEYTURN_UNLOCKED=1 go run .
	eng, err := core.New(unlocked.FromEnv(memstore.New(), slog.Default()))
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
}
