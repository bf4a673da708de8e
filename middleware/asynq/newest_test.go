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
	"github.com/keyturn/keyturn/store/memstore"
)

// versioned is a rule over eng that keeps the latest, with a handler that notes
// what ran.
type versioned struct {
	t       *testing.T
	locks   *lockasynq.Locks
	handler asynq.Handler
	ran     []string
	inside  func() // while it runs
}

func keepLatest(t *testing.T, eng *core.Engine, opts ...core.CallOption) *versioned {
	t.Helper()
	v := &versioned{t: t, inside: func() {}}
	v.locks = locks(t, eng, lockasynq.Serialize("index", "k", opts...).KeepLatestBy("{payload.version}"))
	v.handler = v.locks.Middleware(handler(func(ctx context.Context, task *asynq.Task) error {
		if err := core.AssertHeld(ctx, core.Exclusive("k")); err != nil {
			t.Error(err)
		}
		v.ran = append(v.ran, string(task.Payload()))
		v.inside()
		return nil
	}))
	return v
}

func indexTask(version any) *asynq.Task {
	return asynq.NewTask("index", fmt.Appendf(nil, `{"version":%v}`, version))
}

// process has a worker take a task; want nil: asynq takes it for done.
func (v *versioned) process(version any, want error) {
	v.t.Helper()
	if err := v.handler.ProcessTask(context.Background(), indexTask(version)); !errors.Is(err, want) {
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

func TestKeepLatestDropsWhatIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := keepLatest(t, engine(t, nil))
		for _, version := range []int{5, 3, 5, 7, 6, 0} {
			v.process(version, nil)
		}
		v.expect(3, 5, 5, 7)
	})
}

// One that comes while a newer one runs, or waits, gives its worker back at once.
func TestKeepLatestWaitsForNothingThatIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := keepLatest(t, engine(t, nil), core.WithMaxWait(time.Hour))
		v.inside = func() { time.Sleep(time.Minute) }
		go v.process(5, nil)
		synctest.Wait()
		go v.process(9, nil)
		synctest.Wait()
		began := time.Now()
		v.process(4, nil)
		v.process(8, nil)
		if took := time.Since(began); took != 0 {
			t.Errorf("older ones took %v", took)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		v.expect(2, 5, 9)
	})
}

// One that waits when a newer one comes is dropped when it gets the key, whichever
// of both gets it first.
func TestKeepLatestDropsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := engine(t, nil)
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

// With a handler that fails the newest comes again, and nothing older in between.
func TestKeepLatestRetriesTheNewest(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Serialize("index", "k").KeepLatestBy("{payload.version}"))
	ran := make(chan string, 10)
	failed := errors.New("failed")
	q.serve(l.Middleware(handler(func(_ context.Context, task *asynq.Task) error {
		ran <- string(task.Payload())
		if len(ran) == 1 {
			q.become(q.enqueue("index", `{"version":4}`), asynq.TaskStateCompleted) // dropped
			return failed
		}
		return nil
	})))
	q.become(q.enqueue("index", `{"version":5}`), asynq.TaskStateCompleted)
	close(ran)
	for payload := range ran {
		if payload != `{"version":5}` {
			t.Errorf("%s ran", payload)
		}
	}
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
	} {
		v := keepLatest(t, engine(t, nil))
		v.process(tt.newer, nil)
		v.process(tt.older, nil)
		v.expect(1, tt.newer)
		v = keepLatest(t, engine(t, nil))
		v.process(tt.older, nil)
		v.process(tt.newer, nil)
		v.expect(0, tt.older, tt.newer)
	}
	for _, bad := range []string{
		"-1", "1.5", "1e3", "5.0", `""`, `" 5"`, `"5 "`, `"+5"`, `"0x10"`, `"v5"`, "18446744073709551616", "true", "null", "[5]", "{}",
		`"2026-11-22"`, `"1969-12-31T23:59:59Z"`, `"2300-01-01T00:00:00Z"`, `"22 Nov 26 10:00 UTC"`,
	} {
		v := keepLatest(t, engine(t, nil))
		v.process(bad, asynq.SkipRetry)
		v.expect(0)
	}
	v := keepLatest(t, engine(t, nil))
	v.process("-1", lockasynq.ErrInvalidVersion)
	if err := v.handler.ProcessTask(context.Background(), asynq.NewTask("index", []byte(`{}`))); !errors.Is(err, keytmpl.ErrMissingValue) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("no version: %v", err)
	}
}

func TestKeepLatestFunc(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	ran := 0
	h := locks(t, engine(t, nil), lockasynq.Serialize("index", "k").KeepLatestFunc(func(task *asynq.Task) (uint64, error) {
		if len(task.Payload()) == 0 {
			return 0, bad
		}
		return uint64(len(task.Payload())), nil
	})).Middleware(handler(func(context.Context, *asynq.Task) error { ran++; return nil }))
	for payload, want := range map[string]error{"12345": nil, "": asynq.SkipRetry} {
		if err := h.ProcessTask(context.Background(), asynq.NewTask("index", []byte(payload))); !errors.Is(err, want) {
			t.Errorf("%q: %v", payload, err)
		}
	}
	_ = h.ProcessTask(context.Background(), asynq.NewTask("index", []byte("123")))
	if ran != 1 {
		t.Errorf("%d ran, want one", ran)
	}
}

// Another rule that takes the same key has versions of its own, and so has
// whatever other pattern and key would make the same text.
func TestKeepLatestVersionsAreTheRules(t *testing.T) {
	t.Parallel()
	ran := 0
	h := locks(t, engine(t, nil),
		lockasynq.Serialize("index", "k").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("thumbnail", "k").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("a", "b:c").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("a:b", "c").KeepLatestBy("{payload.version}"),
		lockasynq.Serialize("long"+strings.Repeat(":", 250), strings.Repeat("k", driver.MaxKeyBytes)).KeepLatestBy("{payload.version}"),
	).Middleware(handler(func(context.Context, *asynq.Task) error { ran++; return nil }))
	for i, typename := range []string{"index", "thumbnail", "a", "a:b", "long" + strings.Repeat(":", 250)} {
		if err := h.ProcessTask(context.Background(), asynq.NewTask(typename, fmt.Appendf(nil, `{"version":%d}`, 9-i))); err != nil {
			t.Errorf("%s: %v", typename, err)
		}
	}
	if ran != 5 {
		t.Errorf("%d ran, want all", ran)
	}
}

// While nobody knows whether there is a newer one nothing runs.
func TestKeepLatestInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(memstore.New())
		v := keepLatest(t, engine(t, store))
		store.Refuse()
		v.process(5, core.ErrUnavailable)
		var again *lockasynq.RescheduleError
		if err := v.handler.ProcessTask(context.Background(), indexTask(5)); !errors.As(err, &again) {
			t.Errorf("error = %v, want it rescheduled", err)
		}
		store.Heal()
		v.inside = store.Refuse // it has begun
		v.process(5, nil)
		store.Heal()
		v.expect(0, 5)
	})
}

// The version of a key is forgotten after the rule's retention.
func TestKeepLatestRemembersForTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := keepLatest(t, engine(t, nil), core.WithRetention(time.Hour))
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
	eng := engine(t, nil)
	v := keepLatest(t, eng)
	v.process(uint64(math.MaxUint64), nil)
	v.process(5, nil)
	if was, err := eng.Forget(context.Background(), "%newest:index:k", "a test"); !was || err != nil {
		t.Errorf("Forget: %v, %v", was, err)
	}
	v.process(5, nil)
	v.expect(1, uint64(math.MaxUint64), 5)
}

// Not parallel: it looks at the default log.
func TestKeepLatestLogsWhatItDrops(t *testing.T) {
	log := captureLog(t)
	v := keepLatest(t, engine(t, nil))
	v.process(5, nil)
	v.process(4, nil)
	for _, want := range []string{"level=INFO", "rule=index", "version 4 is older than 5"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log = %s, want %s", log, want)
		}
	}
}

func TestKeepLatestIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	type payload struct {
		Version int
		Items   []int
	}
	eng := engine(t, nil)
	const by = "{payload.version}"
	for name, tt := range map[string]struct {
		rule lockasynq.Rule
		says string
	}{
		"once":             {lockasynq.Once("t", "k").KeepLatestBy(by), "Serialize"},
		"several keys":     {lockasynq.Serialize("t", "k:{payload.ids[*]}").KeepLatestBy(by), "one key"},
		"shared":           {lockasynq.Serialize("t", "k", core.WithShared()).KeepLatestBy(by), "exclusively"},
		"permits":          {lockasynq.Serialize("t", "k", core.WithPermits(2)).KeepLatestBy(by), "exclusively"},
		"unlocked":         {lockasynq.Serialize("t", "k", core.WithRunUnlocked()).KeepLatestBy(by), "WithRunUnlocked"},
		"skip":             {lockasynq.Serialize("t", "k").KeepLatestBy(by).OnConflict(lockasynq.Skip), "Skip"},
		"no version":       {lockasynq.Serialize("t", "k").KeepLatestBy(""), "one placeholder"},
		"text":             {lockasynq.Serialize("t", "k").KeepLatestBy("v{payload.version}"), "one placeholder"},
		"two":              {lockasynq.Serialize("t", "k").KeepLatestBy("{payload.a}.{payload.b}"), "one placeholder"},
		"a list":           {lockasynq.Serialize("t", "k").KeepLatestBy("{payload.v[*]}"), "one placeholder"},
		"a digest":         {lockasynq.Serialize("t", "k").KeepLatestBy("{payload.v|hash}"), "one placeholder"},
		"no such source":   {lockasynq.Serialize("t", "k").KeepLatestBy("{body.version}"), "no such source"},
		"does not parse":   {lockasynq.Serialize("t", "k").KeepLatestBy("{payload"), "template"},
		"no such field":    {lockasynq.SerializeFor[payload]("t", "k").KeepLatestBy("{payload.revision}"), "revision"},
		"not of one value": {lockasynq.SerializeFor[payload]("t", "k").KeepLatestBy("{payload.Items}"), "Items"},
		"no function":      {lockasynq.Serialize("t", "k").KeepLatestFunc(nil), "function"},
	} {
		if _, err := lockasynq.New(eng, tt.rule); err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), `rule for "t"`) {
			t.Errorf("%s: %v, want an error that has %q", name, err, tt.says)
		}
	}
	_, err := lockasynq.New(engine(t, leasesOnly{memstore.New()}), lockasynq.Serialize("t", "k").KeepLatestBy(by))
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that remembers nothing: %v", err)
	}
	for _, r := range []lockasynq.Rule{
		lockasynq.SerializeFor[payload]("t", "k").KeepLatestBy("{payload.Version}"),
		lockasynq.Serialize("t", "k").KeepLatestBy("{header.version}").OnConflict(lockasynq.Wait),
		lockasynq.Serialize("t", "k/l", core.WithHierarchy()).KeepLatestBy(by),
	} {
		if _, err := lockasynq.New(eng, r); err != nil {
			t.Error(err)
		}
	}
}
