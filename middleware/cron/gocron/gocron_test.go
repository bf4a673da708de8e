package lockgocron_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	lockgocron "github.com/keyturn/keyturn/middleware/cron/gocron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, wantIs = checktest.Must, checktest.WantIs

var bg = context.Background()

// The adapters are what gocron takes.
var (
	_ gocron.Locker  = (*lockgocron.Locker)(nil)
	_ gocron.Elector = (*lockgocron.Elector)(nil)
)

// run starts a process's scheduler with a job per second. Its clock is behind by that much.
func run(t *testing.T, option gocron.SchedulerOption, behind time.Duration, job any, opts ...gocron.JobOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(option)
	must(t, err)
	opts = append(opts, gocron.WithName("job"), gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Second+behind))))
	must(t, checktest.ErrorOf(s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job), opts...)))
	s.Start()
	return s
}

// TestLockerRunsAJobOncePerTick in three processes, one of whose clocks is behind.
func TestLockerRunsAJobOncePerTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var skipped atomic.Int32
		hooks := core.WithHooks(observe.Hooks{Skipped: func(context.Context, observe.Skip) { skipped.Add(1) }})
		kit := locktest.New(t, hooks)
		ran := map[time.Duration]int{}
		var refused []error
		began := time.Now()
		for i, behind := range []time.Duration{0, 300 * time.Millisecond, 0} {
			if i > 0 {
				kit = kit.Peer(t, hooks)
			}
			locker, err := lockgocron.NewLocker(kit.Engine, "cron:{job}")
			must(t, err)
			s := run(t, gocron.WithDistributedLocker(locker), behind, func() {
				mu.Lock()
				defer mu.Unlock()
				ran[time.Since(began).Truncate(time.Second)]++
			}, gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, err)
			})))
			defer s.Shutdown()
		}
		time.Sleep(10*time.Second + 900*time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		for tick, n := range ran {
			if n != 1 {
				t.Errorf("%d runs at %v", n, tick)
			}
		}
		if len(ran) != 10 || len(refused) != 20 || skipped.Load() != 20 || slices.ContainsFunc(refused, func(err error) bool { return !errors.Is(err, core.ErrHeld) }) {
			t.Errorf("%d ticks, %d refused: %v, %d skipped", len(ran), len(refused), refused, skipped.Load())
		}
	})
}

// TestLockerKeepsTheKeyUntilTheJobReturns, although gocron ends its context before.
func TestLockerKeepsTheKeyUntilTheJobReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t, core.WithLogger(slog.New(slog.DiscardHandler)))
		locker, err := lockgocron.NewLocker(kit.Engine, "cron:{job}")
		must(t, err)
		ctx, cancel := context.WithCancel(bg)
		lock, err := locker.Lock(ctx, "a job")
		must(t, err)
		cancel()
		time.Sleep(time.Hour)
		wantIs(t, "while the job runs", checktest.ErrorOf(kit.Engine.TryAcquire(bg, "cron:a%20job")), core.ErrHeld)
		if err := lock.Unlock(ctx); err != nil {
			t.Error(err)
		}
		lock, err = locker.Lock(bg, "a job")
		must(t, err)
		kit.Store.Lose("cron:a%20job")
		wantIs(t, "after a loss", lock.Unlock(bg), core.ErrLeaseLost)
		kit.Store.Refuse()
		wantIs(t, "in an outage", checktest.ErrorOf(locker.Lock(bg, "a job")), core.ErrUnavailable)
		if _, err := locker.Lock(bg, ""); err == nil {
			t.Error("a job without a name has a key")
		}
	})
}

// TestElectorHasOneProcessRunAllJobs, and another one after it.
func TestElectorHasOneProcessRunAllJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		var mu sync.Mutex
		var ran []int
		var stops []context.CancelFunc
		returned := make(chan error, 2)
		for i := range 2 {
			if i > 0 {
				kit = kit.Peer(t)
			}
			elector, err := lockgocron.NewElector(kit.Engine, "leader")
			must(t, err)
			wantIs(t, "before it campaigns", elector.IsLeader(bg), lockgocron.ErrNotLeader)
			ctx, stop := context.WithCancel(bg)
			stops = append(stops, stop)
			go func() { returned <- elector.Run(ctx) }()
			synctest.Wait()
			defer run(t, gocron.WithDistributedElector(elector), 0, func() {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, i)
			}).Shutdown()
		}
		time.Sleep(3500 * time.Millisecond)
		stops[0]()
		wantIs(t, "error", <-returned, context.Canceled)
		time.Sleep(3 * time.Second)
		stops[1]()
		<-returned
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []int{0, 0, 0, 1, 1, 1}; !slices.Equal(ran, want) {
			t.Errorf("ran in %v, want %v", ran, want)
		}
	})
}

// TestElectorWithTwoRuns: the end of the one that led does not hide that the other one leads.
func TestElectorWithTwoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := locktest.New(t)
		elector, err := lockgocron.NewElector(kit.Engine, "leader")
		must(t, err)
		for range 2 {
			go func() { _ = elector.Run(t.Context()) }()
		}
		for range 10 {
			time.Sleep(time.Minute)
			wantIs(t, "error", elector.IsLeader(bg), nil)
			kit.Store.Lose("leader")
		}
	})
}

func TestWrongArguments(t *testing.T) {
	eng := locktest.New(t).Engine
	locker := func(eng *core.Engine, template string, opts ...core.CallOption) error {
		return checktest.ErrorOf(lockgocron.NewLocker(eng, template, opts...))
	}
	elector := func(eng *core.Engine, key string, opts ...core.CallOption) error {
		return checktest.ErrorOf(lockgocron.NewElector(eng, key, opts...))
	}
	for _, template := range []string{"cron:{name}", "cron:{job.name}", "cron:{job[*]}", "cron:{"} {
		if locker(eng, template) == nil {
			t.Errorf("template %q is taken", template)
		}
	}
	for err, want := range map[error]error{
		locker(nil, "cron:{job}"):                  core.ErrInvalidOption,
		locker(eng, "cron:{job}", core.WithTTL(0)): core.ErrInvalidOption,
		elector(nil, "leader"):                     core.ErrInvalidOption,
		elector(eng, "leader", core.WithTTL(0)):    core.ErrInvalidOption,
		elector(eng, ""):                           core.ErrInvalidKey,
	} {
		wantIs(t, "error", err, want)
	}
}
