package lockcron_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	lockcron "github.com/keyturn/keyturn/middleware/cron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = checktest.Must

func wrapper(t testing.TB, eng *core.Engine, opts ...core.CallOption) cron.JobWrapper {
	t.Helper()
	w, err := lockcron.Serialize(t.Context(), eng, "cron:job", opts...)
	must(t, err)
	return w
}

// TestOneProcessPerTick: three processes with the same schedule run a short job once per tick, and
// a job that takes longer than the interval never beside itself.
func TestOneProcessPerTick(t *testing.T) {
	for name, tc := range map[string]struct{ takes, every time.Duration }{
		"short": {time.Millisecond, time.Second},
		"long":  {2500 * time.Millisecond, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			kit, section := locktest.New(t), locktest.NewSection(t)
			var mu sync.Mutex
			var ran []time.Time
			for i := range 3 {
				if i > 0 {
					kit = kit.Peer(t)
				}
				schedule := cron.New(cron.WithSeconds(), cron.WithChain(wrapper(t, kit.Engine)))
				_, err := schedule.AddJob("* * * * * *", lockcron.Func(func(ctx context.Context) error {
					defer section.Enter("the " + name + " job")()
					mu.Lock()
					ran = append(ran, time.Now())
					mu.Unlock()
					if _, ok := core.LeaseFrom(ctx); !ok {
						t.Error("no lease in its context")
					}
					time.Sleep(tc.takes)
					return nil
				}))
				must(t, err)
				schedule.Start()
				defer schedule.Stop()
			}
			time.Sleep(30*time.Second + 100*time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if len(ran) != int(30*time.Second/tc.every) {
				t.Errorf("%s: %d runs in 30 s", name, len(ran))
			}
			for i := 1; i < len(ran); i++ {
				if d := ran[i].Sub(ran[i-1]); d != tc.every {
					t.Errorf("%s: run %d came %v after the last", name, i, d)
				}
			}
		})
	}
}

// TestClockThatIsBehind: the tick has been served when a process comes late, by less than the min hold.
func TestClockThatIsBehind(t *testing.T) {
	for behind, runs := range map[time.Duration]int{400 * time.Millisecond: 1, 600 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			var skipped []string
			kit := locktest.New(t, core.WithHooks(observe.Hooks{Skipped: func(_ context.Context, s observe.Skip) {
				if s.Reason == coverage.SkipHeld {
					skipped = append(skipped, s.Rule)
				}
			}}))
			n := 0
			count := cron.FuncJob(func() { n++ })
			wrapper(t, kit.Peer(t).Engine)(count).Run()
			time.Sleep(behind)
			wrapper(t, kit.Engine)(count).Run()
			if n != runs || len(skipped) != 2-runs {
				t.Errorf("%v behind: %d runs, skipped %q", behind, n, skipped)
			}
		})
	}
}

// TestFunc has the program's context, which ends with the lease, and its error is logged by the engine's logger.
func TestFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		kit, log := logging(t)
		wrap, err := lockcron.Serialize(ctx, kit.Engine, "cron:job", core.WithMinHold(0))
		must(t, err)
		runs := 0
		job := cron.NewChain(wrap).Then(lockcron.Func(func(ctx context.Context) error {
			runs++
			time.Sleep(time.Hour) // longer than the engine's maximum hold
			if ctx.Err() != nil || ctx.Value(key{}) != "value" {
				t.Error("lost, or another context:", context.Cause(ctx))
			}
			kit.Store.Lose("cron:job")
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		job.Run()
		synctest.Wait() // the engine's own line about the loss is written
		if got := log(); len(got) != 1 || !strings.Contains(got[0], "job failed") || !strings.Contains(got[0], "cron:job") {
			t.Errorf("logged %q", got)
		}
		cancel()
		if job.Run(); runs != 1 {
			t.Errorf("%d runs, one of them after the program's end", runs)
		}
	})
}

// TestOutage leaves the tick out, or runs it unlocked if the rule says so. A panic goes on to the
// wrappers outside, and frees the key.
func TestOutage(t *testing.T) {
	kit, log := logging(t)
	n := 0
	job := cron.FuncJob(func() { n++ })
	kit.Store.Refuse()
	wrapper(t, kit.Engine)(job).Run()
	if got := log(); n != 0 || len(got) != 1 || !strings.Contains(got[0], "did not run") {
		t.Errorf("%d runs, logged %q", n, got)
	}
	if wrapper(t, kit.Engine, core.WithRunUnlocked())(job).Run(); n != 1 {
		t.Errorf("%d runs", n)
	}
	kit.Store.Heal()
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic was swallowed")
			}
		}()
		wrapper(t, kit.Engine, core.WithMinHold(0))(cron.FuncJob(func() { panic("oh") })).Run()
	}()
	if wrapper(t, kit.Engine)(job).Run(); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestWrongRules(t *testing.T) {
	eng := locktest.New(t).Engine
	bare, err := core.New(exclusive{locktest.NewStore(nil)})
	must(t, err)
	for name, tc := range map[string]struct {
		eng  *core.Engine
		key  string
		opts []core.CallOption
		want error
	}{
		"no engine":     {nil, "k", nil, core.ErrInvalidOption},
		"no key":        {eng, "", nil, core.ErrInvalidKey},
		"a wrong TTL":   {eng, "k", []core.CallOption{core.WithTTL(0)}, core.ErrInvalidOption},
		"a poor store":  {bare, "k", nil, errors.ErrUnsupported},
		"its way round": {bare, "k", []core.CallOption{core.WithMinHold(0)}, nil},
	} {
		if _, err := lockcron.Serialize(t.Context(), tc.eng, tc.key, tc.opts...); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type exclusive struct{ driver.Store }

func (exclusive) Describe() driver.Description { return driver.Description{} }

// logging is a kit, and the lines that this package gives to its engine's logger.
func logging(t *testing.T) (*locktest.Kit, func() []string) {
	var text strings.Builder
	kit := locktest.New(t, core.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	return kit, func() []string {
		return slices.DeleteFunc(strings.Split(text.String(), "\n"), func(l string) bool { return !strings.Contains(l, "lockcron:") }) // not the engine's own
	}
}
