package lockfunc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// once is a function that is carried out once per key.
func once[T, R any](t *testing.T, eng *core.Engine, key func(T) string, fn func(context.Context, T) (R, error), opts ...core.CallOption) func(context.Context, T) (R, error) {
	t.Helper()
	run, err := lockfunc.Once(lockfunc.New(eng), "work", key, fn, opts...)
	must(t, err)
	return run
}

func TestOnceRunsOnceAndReplaysTheValue(t *testing.T) {
	type receipt struct {
		Number int
		Notes  []string
		fresh  bool // is not stored
	}
	runs, failing := 0, errors.New("not this time")
	run := once(t, locktest.New(t).Engine, func(j job) string { return "job:" + j.ID }, func(_ context.Context, j job) (*receipt, error) {
		if runs++; runs == 1 {
			return nil, failing
		}
		return &receipt{runs, []string{j.User}, true}, nil
	})
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

// TestResultsAreRecordedAsByTheEngine: bytes as they are, and core.Once reads what Once has recorded.
func TestResultsAreRecordedAsByTheEngine(t *testing.T) {
	eng := locktest.New(t).Engine
	raw := once(t, eng, itself, func(context.Context, string) ([]byte, error) { return []byte{0xff, '"'}, nil })
	for range 2 {
		if got, err := raw(context.Background(), "bytes"); string(got) != "\xff\"" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := once(t, eng, itself, func(context.Context, string) (int, error) { return 7, nil })(context.Background(), "number")
	got, again := core.Once(context.Background(), eng, "number", func(context.Context) (int, error) { return 8, nil })
	check(t, got == 7 && err == nil && again == nil, "%d, %v, %v", got, err, again)
}

func TestOnceWhatCannotBeStored(t *testing.T) {
	eng := locktest.New(t, core.WithKeyFilter(strings.ToUpper)).Engine
	runs := 0
	channels := once(t, eng, itself, func(context.Context, string) (chan int, error) {
		runs++
		return make(chan int), nil
	})
	for want := 1; want <= 2; want++ {
		got, err := channels(context.Background(), "k")
		wantOnly(t, err, core.ErrEncoding)
		if got == nil || runs != want { // its result is the caller's all the same
			t.Errorf("%v after %d runs, want %d", got, runs, want)
		}
	}
	// An older program stored something that this one does not expect.
	must(t, checktest.ErrorOf(eng.Once(context.Background(), "old", func(context.Context) ([]byte, error) { return []byte("text"), nil })))
	_, err := once(t, eng, itself, func(context.Context, string) (int, error) {
		t.Error("ran again")
		return 0, nil
	})(context.Background(), "old")
	wantOnly(t, err, core.ErrEncoding)
	check(t, strings.Contains(err.Error(), `"OLD"`), "%q does not name the key as it may be shown", err)
}

// TestResultsThatAreNotKept: over the limit, or after the context's end, as it may be a part. The caller that ran
// the function has it and knows; a repeat gets none.
func TestResultsThatAreNotKept(t *testing.T) {
	for name, tc := range map[string]struct {
		result []byte
		opts   []core.CallOption
	}{
		"over the limit":     {[]byte("large"), []core.CallOption{core.WithResultLimit(3)}},
		"after the end":      {[]byte("large"), nil},
		"after the end, nil": {nil, nil},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		runs := 0
		run := once(t, locktest.New(t).Engine, byUser, func(ctx context.Context, _ job) ([]byte, error) {
			runs++
			if tc.opts == nil {
				cancel()
				<-ctx.Done()
			}
			return tc.result, nil
		}, tc.opts...)
		if got, err := run(ctx, job{}); string(got) != string(tc.result) || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		cancel()
		got, err := run(context.Background(), job{})
		wantOnly(t, err, core.ErrResultNotKept)
		check(t, got == nil && runs == 1, "%s: a repeat got %q, %d runs", name, got, runs)
	}
}

func TestOnceRunsUnlockedWhereItsRuleSaysSo(t *testing.T) {
	kit := locktest.New(t)
	kit.Store.Refuse()
	run := once(t, kit.Engine, byUser, func(context.Context, job) (string, error) { return "ran", nil }, core.WithRunUnlocked())
	if got, err := run(context.Background(), job{}); got != "ran" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestErrorsOfKeyFunctions come back as they are, and an ErrorHandler does not take them for this engine's answer.
func TestErrorsOfKeyFunctions(t *testing.T) {
	var told []reasons.Refusal
	locks := lockfunc.New(locktest.New(t).Engine).WithErrorHandler(func(_ context.Context, refused *reasons.Refusal) error {
		told = append(told, *refused)
		return nil
	})
	fn := func(context.Context, error) (int, error) { return 0, nil }
	serialized, err := lockfunc.SerializeKeys(locks, "serialized", func(_ context.Context, own error) ([]string, error) { return nil, own }, fn)
	must(t, err)
	once, err := lockfunc.OnceKey(locks, "once", func(_ context.Context, own error) (string, error) { return "", own }, fn)
	must(t, err)
	_, one := serialized(t.Context(), core.ErrHeld)
	_, other := once(t.Context(), core.ErrHeld)
	check(t, one == core.ErrHeld && other == core.ErrHeld, "came back as %v and %v", one, other)
	check(t, len(told) == 2 && told[0].Reason == reasons.Internal && told[1].Reason == reasons.Internal, "told %+v", told)
}

// TestOnceKey: the key of Once may have something of the context, and its error is the call's.
func TestOnceKey(t *testing.T) {
	unknown, ran := errors.New("who?"), 0
	key := func(ctx context.Context, id string) (string, error) {
		who, ok := ctx.Value(caller{}).(string)
		if !ok {
			return "", unknown
		}
		return "once:" + who + ":" + id, nil
	}
	work, err := lockfunc.OnceKey(lockfunc.New(locktest.New(t).Engine), "work", key, func(context.Context, string) (int, error) {
		ran++
		return ran, nil
	})
	must(t, err)
	for i, who := range []string{"ann", "bob", "ann"} {
		if n, err := work(context.WithValue(t.Context(), caller{}, who), "1"); err != nil || n != []int{1, 2, 1}[i] {
			t.Errorf("%s: %d, %v", who, n, err)
		}
	}
	wantIs(t, "error", checktest.ErrorOf(work(t.Context(), "1")), unknown)
}
