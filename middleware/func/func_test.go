package lockfunc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	"github.com/keyturn/keyturn/store/memstore"
)

type job struct{ ID, User string }

func byUser(j job) string { return "user:" + j.User }

func TestSerializedFunctionRunsOneAtATimePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, overlaps atomic.Int32
		work := func(ctx context.Context, j job) (string, error) {
			if err := core.AssertHeld(ctx, core.Exclusive(byUser(j))); err != nil {
				t.Error(err)
			}
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			defer inside.Add(-1)
			time.Sleep(10 * time.Millisecond)
			return "done " + j.ID, nil
		}
		var all sync.WaitGroup
		first := locktest.New(t)
		for _, process := range []*locktest.Kit{first, first.Peer(t)} {
			run, err := lockfunc.Serialize(lockfunc.New(process.Engine), "work", byUser, work)
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				all.Go(func() {
					if got, err := run(context.Background(), job{"1", "ann"}); got != "done 1" || err != nil {
						t.Errorf("%q, %v", got, err)
					}
				})
			}
		}
		began := time.Now()
		all.Wait()
		if overlaps.Load() > 0 || time.Since(began) != 200*time.Millisecond {
			t.Errorf("%d overlaps in %v", overlaps.Load(), time.Since(began))
		}
	})
}

func TestSerializedFunctionsErrors(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kit := locktest.New(t)
				ran := false
				run, err := lockfunc.Serialize(lockfunc.New(kit.Engine), "work", byUser, func(context.Context, job) (int, error) {
					ran = true
					if tc.loses {
						kit.Store.Lose("user:ann")
						time.Sleep(time.Minute) // until a renewal tells
					}
					return 7, tc.fn
				}, core.WithFailFast())
				if err != nil {
					t.Fatal(err)
				}
				if tc.held {
					l, err := kit.Engine.Acquire(context.Background(), "user:ann")
					if err != nil {
						t.Fatal(err)
					}
					defer l.Release(context.Background())
				}
				if tc.down {
					kit.Store.Refuse()
				}
				got, err := run(context.Background(), job{User: tc.user})
				if (got == 7) != tc.ran || ran != tc.ran {
					t.Errorf("ran %v, result %d", ran, got)
				}
				if tc.fn == own && !tc.loses {
					if err != own {
						t.Errorf("error %v, want it as it is", err)
					}
					return
				}
				wantOnly(t, err, tc.want...)
			})
		})
	}
}

func TestOnceRunsOnceAndReplaysTheValue(t *testing.T) {
	type receipt struct {
		Number int
		Notes  []string
		fresh  bool // is not stored
	}
	locks := lockfunc.New(locktest.New(t).Engine)
	runs := 0
	failing := errors.New("not this time")
	run, err := lockfunc.Once(locks, "work", func(j job) string { return "job:" + j.ID }, func(_ context.Context, j job) (*receipt, error) {
		if runs++; runs == 1 {
			return nil, failing
		}
		return &receipt{runs, []string{j.User}, true}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(context.Background(), job{"1", "ann"}); got != nil || err != failing {
		t.Errorf("%v, %v", got, err)
	}
	for i := range 3 {
		got, err := run(context.Background(), job{"1", "ann"})
		if err != nil || got == nil || got.Number != 2 || got.fresh != (i == 0) || !slices.Equal(got.Notes, []string{"ann"}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := run(context.Background(), job{"2", "bob"}); err != nil || got.Number != 3 {
		t.Errorf("another key: %+v, %v", got, err)
	}
}

// Bytes are recorded as they are, and core.Once reads what Once has recorded.
func TestResultsAreRecordedAsByTheEngine(t *testing.T) {
	eng := locktest.New(t).Engine
	key := func(k string) string { return k }
	raw, err := lockfunc.Once(lockfunc.New(eng), "raw", key, func(context.Context, string) ([]byte, error) { return []byte{0xff, '"'}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := raw(context.Background(), "bytes"); string(got) != "\xff\"" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	numbers, err := lockfunc.Once(lockfunc.New(eng), "numbers", key, func(context.Context, string) (int, error) { return 7, nil })
	if err != nil {
		t.Fatal(err)
	}
	_, err = numbers(context.Background(), "number")
	got, again := core.Once(context.Background(), eng, "number", func(context.Context) (int, error) { return 8, nil })
	if got != 7 || err != nil || again != nil {
		t.Errorf("%d, %v, %v", got, err, again)
	}
}

func TestOnceWhatCannotBeStored(t *testing.T) {
	eng := locktest.New(t).Engine
	locks := lockfunc.New(eng)
	key := func(k string) string { return k }
	runs := 0
	channels, err := lockfunc.Once(locks, "channels", key, func(context.Context, string) (chan int, error) {
		runs++
		return make(chan int), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := channels(context.Background(), "k")
		wantOnly(t, err, core.ErrEncoding)
		if got == nil {
			t.Error("fn ran: its result is the caller's all the same")
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	// An older program stored something that this one does not expect.
	if _, err := eng.Once(context.Background(), "old", func(context.Context) ([]byte, error) { return []byte("text"), nil }); err != nil {
		t.Fatal(err)
	}
	numbers, err := lockfunc.Once(locks, "numbers", key, func(context.Context, string) (int, error) {
		t.Error("ran again")
		return 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = numbers(context.Background(), "old")
	wantOnly(t, err, core.ErrEncoding)
	if !strings.Contains(err.Error(), `"old"`) {
		t.Errorf("%q does not name the key", err)
	}
}

func TestOnceOfAResultOverTheLimit(t *testing.T) {
	runs := 0
	run, err := lockfunc.Once(lockfunc.New(locktest.New(t).Engine), "work", byUser, func(context.Context, job) (string, error) {
		runs++
		return "large", nil
	}, core.WithResultLimit(3))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(context.Background(), job{}); got != "large" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	got, err := run(context.Background(), job{})
	if got != "" {
		t.Errorf("a repeat got %q", got)
	}
	wantOnly(t, err, core.ErrResultNotKept)
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestOnceRunsUnlockedWhereItsRuleSaysSo(t *testing.T) {
	kit := locktest.New(t)
	kit.Store.Refuse()
	run, err := lockfunc.Once(lockfunc.New(kit.Engine), "work", byUser, func(context.Context, job) (string, error) { return "ran", nil }, core.WithRunUnlocked())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(context.Background(), job{}); got != "ran" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFunctionsAreCheckedAtTheStart(t *testing.T) {
	locks := lockfunc.New(locktest.New(t).Engine)
	fn := func(context.Context, job) (int, error) { return 0, nil }
	if _, err := lockfunc.Serialize(locks, "taken", byUser, fn); err != nil {
		t.Fatal(err)
	}
	type args struct {
		locks *lockfunc.Locks
		name  string
		key   func(job) string
		fn    func(context.Context, job) (int, error)
		opts  []core.CallOption
	}
	for name, tc := range map[string]struct {
		args
		says []string
	}{
		"everything":   {args{}, []string{"an engine", "a name", "a key function", "a function"}},
		"no engine":    {args{lockfunc.New(nil), "new", byUser, fn, nil}, []string{"an engine"}},
		"options":      {args{locks, "new", byUser, fn, []core.CallOption{core.WithTTL(0), nil}}, []string{"WithTTL", "not nil"}},
		"a taken name": {args{locks, "taken", byUser, fn, nil}, []string{"taken", "of its own"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lockfunc.Once(tc.locks, tc.name, tc.key, tc.fn, tc.opts...)
			_, err2 := lockfunc.Serialize(tc.locks, tc.name, tc.key, tc.fn, tc.opts...)
			for _, err := range []error{err, err2} {
				wantOnly(t, err, core.ErrInvalidOption)
				for _, want := range tc.says {
					if err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			}
		})
	}
	for name, o := range map[string]core.CallOption{"WithShared": core.WithShared(), "WithPermits": core.WithPermits(2), "WithHierarchy": core.WithHierarchy()} {
		_, err := lockfunc.Once(locks, name, byUser, fn, o)
		wantOnly(t, err, core.ErrInvalidOption)
	}
	eng, err := core.New(exclusiveOnly{memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	unable := lockfunc.New(eng)
	_, err = lockfunc.Once(unable, "once", byUser, fn)
	wantOnly(t, err, errors.ErrUnsupported)
	_, err = lockfunc.Serialize(unable, "shared", byUser, fn, core.WithShared())
	wantOnly(t, err, errors.ErrUnsupported)
	if got := unable.Coverage(); len(got) != 0 {
		t.Errorf("what was refused is reported: %v", got)
	}
}

// exclusiveOnly hides what its store can do.
type exclusiveOnly struct{ driver.Store }

func (exclusiveOnly) Describe() driver.Description { return driver.Description{} }

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
	if err != nil {
		t.Fatal(err)
	}
	second, err := lockfunc.Once(locks, "charge", byUser, fn, core.WithRule("payments"))
	if err != nil {
		t.Fatal(err)
	}
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
	if locks.Coverage()[0].Name != "deliver" {
		t.Error("the list is not a copy")
	}
}
