package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// versioned is a rule over eng that keeps the latest, with a handler that notes what ran.
type versioned struct {
	t       *testing.T
	locks   *lockasynq.Locks
	handler asynq.Handler
	ran     []string
	inside  func() error // while it runs
}

func keepLatest(t *testing.T, eng *core.Engine, opts ...core.CallOption) *versioned {
	t.Helper()
	v := &versioned{t: t, inside: func() error { return nil }}
	v.locks = locks(t, eng, lockasynq.Serialize("index", "k", opts...).KeepLatestBy("{payload.version}"))
	v.handler = v.locks.Middleware(handler(func(ctx context.Context, task *asynq.Task) error {
		wantNil(t, core.AssertHeld(ctx, core.Exclusive("k")))
		v.ran = append(v.ran, string(task.Payload()))
		return v.inside()
	}))
	return v
}

// process has a worker take a task; want nil: asynq takes it for done.
func (v *versioned) process(version any, want error) {
	v.t.Helper()
	if err := process(context.Background(), v.handler, "index", fmt.Sprintf(`{"version":%v}`, version)); !errors.Is(err, want) {
		v.t.Errorf("version %v: %v, want %v", version, err, want)
	}
}

// expect checks what ran, and how many were dropped.
func (v *versioned) expect(skipped uint64, versions ...any) {
	v.t.Helper()
	var want []string
	for _, n := range versions {
		want = append(want, fmt.Sprintf(`{"version":%v}`, n))
	}
	if !slices.Equal(v.ran, want) {
		v.t.Errorf("%q ran, want %q", v.ran, want)
	}
	if got := v.locks.Skipped(); len(got) != 1 || got["index"] != skipped {
		v.t.Errorf("%v skipped, want %d", got, skipped)
	}
}

// A task that failed comes again, and nothing older in between.
func TestKeepLatestDropsWhatIsOlder(t *testing.T) {
	t.Parallel()
	v, failed := keepLatest(t, engine(t)), errors.New("failed")
	v.inside = func() error { return failed }
	v.process(5, failed)
	v.process(3, nil)
	v.inside = func() error { return nil }
	for _, version := range []int{5, 7, 6, 0} {
		v.process(version, nil)
	}
	v.expect(3, 5, 5, 7)
}

// One that comes while a newer one runs, or waits, gives its worker back at once.
func TestKeepLatestWaitsForNothingThatIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := keepLatest(t, engine(t), core.WithMaxWait(time.Hour))
		v.inside = func() error { time.Sleep(time.Minute); return nil }
		go v.process(5, nil)
		synctest.Wait()
		go v.process(9, nil)
		synctest.Wait()
		began := time.Now()
		v.process(4, nil)
		v.process(8, nil)
		took := time.Since(began)
		check(t, took == 0, "older ones took %v", took)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		v.expect(2, 5, 9)
	})
}

// One that waits when a newer one comes is dropped when it gets the key, whichever of both gets it first.
func TestKeepLatestDropsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t)
		v := keepLatest(t, eng, core.WithMaxWait(time.Hour))
		lease := hold(t, eng, "k")
		for _, version := range []int{1, 4, 2, 3} {
			go v.process(version, nil)
			synctest.Wait()
		}
		_ = lease.Release(context.Background())
		synctest.Wait()
		v.expect(3, 4)
	})
}

func TestKeepLatestReadsVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		older, newer string
	}{
		{"9", "10"},
		{"9007199254740993", "9007199254740994"},
		{"9223372036854775807", "9223372036854775808"},
		{fmt.Sprint(uint64(math.MaxUint64 - 1)), fmt.Sprint(uint64(math.MaxUint64))},
		{`"9"`, `"10"`},
		{`"2026-11-22T10:00:00Z"`, `"2026-11-22T10:00:00.000000001Z"`},
		{`"2026-11-22T11:00:00+02:00"`, `"2026-11-22T10:00:00Z"`},
		{`"1970-01-01T00:00:00Z"`, `"1970-01-01T00:00:01Z"`},
		{`"2261-12-31T23:59:58Z"`, `"2261-12-31T23:59:59Z"`},
	} {
		v := keepLatest(t, engine(t))
		v.process(tt.newer, nil)
		v.process(tt.older, nil)
		v.expect(1, tt.newer)
		v = keepLatest(t, engine(t))
		v.process(tt.older, nil)
		v.process(tt.newer, nil)
		v.expect(0, tt.older, tt.newer)
	}
	for _, bad := range []string{
		"-1", "1.5", "1e3", "5.0", `""`, `" 5"`, `"5 "`, `"+5"`, `"0x10"`, `"v5"`, "18446744073709551616", "true", "null", "[5]", "{}",
		`"2026-11-22"`, `"1969-12-31T23:59:59Z"`, `"2262-01-01T00:00:00Z"`, `"22 Nov 26 10:00 UTC"`,
	} {
		v := keepLatest(t, engine(t))
		v.process(bad, asynq.SkipRetry)
		v.expect(0)
	}
	v := keepLatest(t, engine(t))
	v.process("-1", lockasynq.ErrInvalidVersion)
	if err := process(context.Background(), v.handler, "index", `{}`); !errors.Is(err, keytmpl.ErrMissingValue) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("no version: %v", err)
	}
}

func TestKeepLatestFunc(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t), lockasynq.Serialize("index", "k").KeepLatestFunc(func(task *asynq.Task) (uint64, error) {
		if len(task.Payload()) == 0 {
			return 0, errors.New("bad")
		}
		return uint64(len(task.Payload())), nil
	}))
	h := l.Middleware(handler(succeed))
	wantIs(t, "without a version", process(context.Background(), h, "index", ""), asynq.SkipRetry)
	for skipped, payload := range []string{"12345", "123"} {
		err := process(context.Background(), h, "index", payload)
		check(t, err == nil && l.Skipped()["index"] == uint64(skipped), "%q: %v, %v skipped", payload, err, l.Skipped())
	}
}

// Another rule that takes the same key has versions of its own, and so has
// whatever other pattern and key would make the same text.
func TestKeepLatestVersionsAreTheRules(t *testing.T) {
	t.Parallel()
	ran := 0
	h := locks(t, engine(t),
		lockasynq.Serialize("index", "k").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("thumbnail", "k").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("a", "b:c").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("a:b", "c").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("long"+strings.Repeat(":", 250), strings.Repeat("k", driver.MaxKeyBytes)).KeepLatestBy("{payload.version}"),
	).Middleware(handler(func(context.Context, *asynq.Task) error { ran++; return nil }))
	for i, typename := range []string{"index", "thumbnail", "a", "a:b", "long" + strings.Repeat(":", 250)} {
		wantIs(t, typename, process(context.Background(), h, typename, fmt.Sprintf(`{"version":%d}`, 9-i)), nil)
	}
	check(t, ran == 5, "%d ran, want all", ran)
}

// While nobody knows whether there is a newer one nothing runs.
func TestKeepLatestInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		v := keepLatest(t, kit.Engine)
		kit.Store.Refuse()
		v.process(5, core.ErrUnavailable)
		kit.Store.Heal()
		v.inside = func() error { kit.Store.Refuse(); return nil } // it has begun
		v.process(5, nil)
		kit.Store.Heal()
		v.expect(0, 5)
	})
}

// The version of a key is forgotten after the rule's retention.
func TestKeepLatestRemembersForTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := keepLatest(t, engine(t), core.WithRetention(time.Hour))
		v.process(5, nil)
		time.Sleep(59 * time.Minute)
		v.process(4, nil) // which asks, too
		time.Sleep(59 * time.Minute)
		v.process(4, nil)
		time.Sleep(61 * time.Minute)
		v.process(4, nil)
		v.expect(2, 5, 4)
	})
}

// The name in the comment of KeepLatestBy is the one under which a version is dropped.
func TestKeepLatestVersionCanBeForgotten(t *testing.T) {
	t.Parallel()
	eng := engine(t)
	v := keepLatest(t, eng)
	v.process(uint64(math.MaxUint64), nil)
	v.process(5, nil)
	was, err := eng.Forget(context.Background(), "%newest:index:k", "a test")
	check(t, was && err == nil, "Forget: %v, %v", was, err)
	v.process(5, nil)
	v.expect(1, uint64(math.MaxUint64), 5)
}
