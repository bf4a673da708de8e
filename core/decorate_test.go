package core_test

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
	"github.com/keyturn/keyturn/store/memstore"
)

type job struct{ ID, User string }

func byUser(j job) string { return "user:" + j.User }

func TestSerializedFunctionRunsOneAtATimePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		var inside, overlaps atomic.Int32
		work := func(ctx context.Context, j job) (string, error) {
			if err := core.AssertHeld(ctx, byUser(j)); err != nil {
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
		for range 2 { // two processes
			eng := newEngine(t, shared.Peer())
			run, err := core.SerializeFunc(eng, "work", byUser, work)
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
		user string
		held bool
		down error
		fn   error
		want []error
		ran  bool
	}{
		"its own":   {user: "ann", fn: own, want: []error{own}, ran: true},
		"held":      {user: "ann", held: true, want: []error{core.ErrHeld}},
		"outage":    {user: "ann", down: errDown, want: []error{core.ErrUnavailable}},
		"bad key":   {user: "{ann}", want: []error{core.ErrInvalidKey}},
		"none":      {user: "ann", ran: true},
		"its lease": {user: "ann", fn: core.ErrLeaseLost, want: []error{core.ErrLeaseLost}, ran: true},
	} {
		t.Run(name, func(t *testing.T) {
			spy := newSpy()
			eng := newEngine(t, spy)
			ran := false
			run, err := core.SerializeFunc(eng, "work", byUser, func(context.Context, job) (int, error) {
				ran = true
				return 7, tc.fn
			}, core.WithFailFast())
			if err != nil {
				t.Fatal(err)
			}
			if tc.held {
				defer mustRelease(t, mustAcquire(t, eng, "user:ann"))
			}
			if tc.down != nil {
				spy.onAcquire = func(context.Context, driver.Request) error { return tc.down }
			}
			got, err := run(context.Background(), job{User: tc.user})
			if (got == 7) != tc.ran || ran != tc.ran {
				t.Errorf("ran %v, result %d", ran, got)
			}
			if tc.fn == own {
				if err != own {
					t.Errorf("error %v, want it as it is", err)
				}
				return
			}
			wantOnly(t, err, tc.want...)
		})
	}
}

func TestOnceFuncRunsOnceAndReplaysTheValue(t *testing.T) {
	type receipt struct {
		Number int
		Notes  []string
		fresh  bool // is not stored
	}
	for name, codec := range map[string][]core.CallOption{"JSON": nil, "another": {core.WithCodec(backwards{})}} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			failing := errors.New("not this time")
			fn := func(_ context.Context, j job) (*receipt, error) {
				if runs++; runs == 1 {
					return nil, failing
				}
				return &receipt{runs, []string{j.User}, true}, nil
			}
			run, err := core.OnceFunc(newEngine(t, memstore.New()), "work", func(j job) string { return "job:" + j.ID }, fn, codec...)
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
		})
	}
}

// backwards is JSON, back to front.
type backwards struct{ core.Codec }

func (backwards) Marshal(v any) ([]byte, error) {
	data, err := core.JSON.Marshal(v)
	slices.Reverse(data)
	return data, err
}

func (backwards) Unmarshal(data []byte, v any) error {
	data = slices.Clone(data)
	slices.Reverse(data)
	return core.JSON.Unmarshal(data, v)
}

func TestOnceFuncWhatCannotBeStored(t *testing.T) {
	eng := newEngine(t, memstore.New())
	key := func(k string) string { return k }
	runs := 0
	channels, err := core.OnceFunc(eng, "channels", key, func(context.Context, string) (chan int, error) {
		runs++
		return make(chan int), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := channels(context.Background(), "k")
		wantOnly(t, err, core.ErrResultCodec)
		if got == nil {
			t.Error("fn ran: its result is the caller's all the same")
		}
	}
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	// What an older program stored is not what this one expects.
	if _, err := eng.Once(context.Background(), "old", func(context.Context) ([]byte, error) { return []byte("text"), nil }); err != nil {
		t.Fatal(err)
	}
	numbers, err := core.OnceFunc(eng, "numbers", key, func(context.Context, string) (int, error) {
		t.Error("ran again")
		return 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = numbers(context.Background(), "old")
	wantOnly(t, err, core.ErrResultCodec)
	if !strings.Contains(err.Error(), `"old"`) {
		t.Errorf("%q does not name the key", err)
	}
}

func TestOnceFuncOfAResultOverTheLimit(t *testing.T) {
	runs := 0
	run, err := core.OnceFunc(newEngine(t, memstore.New()), "work", byUser, func(context.Context, job) (string, error) {
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

func TestOnceFuncRunsUnlockedWhereItsRuleSaysSo(t *testing.T) {
	down := &beginDown{spy: newSpy(), down: errDown}
	run, err := core.OnceFunc(newEngine(t, down), "work", byUser, func(context.Context, job) (string, error) { return "ran", nil }, core.WithRunUnlocked())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(context.Background(), job{}); got != "ran" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDecoratorsCheckAtTheStart(t *testing.T) {
	eng := newEngine(t, memstore.New())
	fn := func(context.Context, job) (int, error) { return 0, nil }
	if _, err := core.SerializeFunc(eng, "taken", byUser, fn); err != nil {
		t.Fatal(err)
	}
	type args struct {
		eng  *core.Engine
		name string
		key  func(job) string
		fn   func(context.Context, job) (int, error)
		opts []core.CallOption
	}
	for name, tc := range map[string]struct {
		args
		says []string
	}{
		"everything":   {args{}, []string{"an engine", "a name", "a key function", "a function"}},
		"options":      {args{eng, "new", byUser, fn, []core.CallOption{core.WithTTL(0), core.WithCodec(nil), nil}}, []string{"WithTTL", "WithCodec", "not nil"}},
		"a taken name": {args{eng, "taken", byUser, fn, nil}, []string{"taken", "of its own"}},
	} {
		t.Run(name, func(t *testing.T) {
			once, err := core.OnceFunc(tc.eng, tc.name, tc.key, tc.fn, tc.opts...)
			_, err2 := core.SerializeFunc(tc.eng, tc.name, tc.key, tc.fn, tc.opts...)
			for _, err := range []error{err, err2} {
				wantOnly(t, err, core.ErrInvalidOption)
				for _, want := range tc.says {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			}
			if once != nil {
				t.Error("a function all the same")
			}
		})
	}
	plain := newEngine(t, plain{memstore.New()})
	if _, err := core.OnceFunc(plain, "once", byUser, fn); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store without records: %v", err)
	}
	if got := plain.Coverage(); len(got) != 0 {
		t.Errorf("what was refused is reported: %v", got)
	}
}

func TestCoverageOfDecoratedFunctions(t *testing.T) {
	spy := &ruleNames{}
	eng := newEngine(t, memstore.New(), core.WithHooks(spy.hooks()))
	fn := func(context.Context, job) (int, error) { return 0, nil }
	first, err := core.SerializeFunc(eng, "deliver", byUser, fn)
	if err != nil {
		t.Fatal(err)
	}
	second, err := core.OnceFunc(eng, "charge", byUser, fn)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = first(context.Background(), job{})
	_, _ = second(context.Background(), job{})
	var lines []string
	for _, c := range eng.Coverage() {
		lines = append(lines, c.String())
	}
	if want := []string{"deliver: serialize func", "charge: once func"}; !slices.Equal(lines, want) {
		t.Errorf("coverage %q, want %q", lines, want)
	}
	if want := []string{"deliver", "charge"}; !slices.Equal(spy.names, want) {
		t.Errorf("observers were told the rules %q, want %q", spy.names, want)
	}
	eng.Coverage()[0].Name = "mine"
	if eng.Coverage()[0].Name != "deliver" {
		t.Error("the list is the engine's own")
	}
}

// ruleNames keeps the rules that asked.
type ruleNames struct {
	names []string
}

func (r *ruleNames) hooks() observe.Hooks {
	return observe.Hooks{AcquireStart: r.AcquireStart}
}

func (r *ruleNames) AcquireStart(ctx context.Context, a observe.Acquisition) context.Context {
	r.names = append(r.names, a.Rule)
	return ctx
}
