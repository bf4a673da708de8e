package replicatest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	lockcron "github.com/keyturn/keyturn/middleware/cron"
	lockgocron "github.com/keyturn/keyturn/middleware/cron/gocron"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

// Queues are not part of the test.

func unavailable(err error) bool { return errors.Is(err, core.ErrUnavailable) }

func onAsynq(t *testing.T, redis *redistest.Server, a *account) replica {
	eng := newEngine(t, redis)
	onePayment, err := lockasynq.New(eng, lockasynq.Once("payment", "asynq:payment:{payload.id}").OnConflict(lockasynq.Wait))
	must(t, err)
	oneAccount, err := lockasynq.New(eng, lockasynq.Serialize("payment", "asynq:account:{payload.account}").OnConflict(lockasynq.Wait))
	must(t, err)
	worker := onePayment.Middleware(oneAccount.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		a.pay()
		return nil
	})))
	return func(ctx context.Context, id int) (string, error) {
		return "", worker.ProcessTask(ctx, asynq.NewTask("payment", fmt.Appendf(nil, `{"id":%d,"account":1}`, id)))
	}
}

func onRiver(t *testing.T, redis *redistest.Server, a *account) replica {
	eng, wait := newEngine(t, redis), core.WithMaxWait(maxWait)
	onePayment, err := lockriver.New(eng, lockriver.Once("payment", "river:payment:{args.id}", wait))
	must(t, err)
	oneAccount, err := lockriver.New(eng, lockriver.Serialize("payment", "river:account:{args.account}", wait))
	must(t, err)
	return func(ctx context.Context, id int) (string, error) {
		job := &rivertype.JobRow{Kind: "payment", EncodedArgs: fmt.Appendf(nil, `{"id":%d,"account":1}`, id)}
		return "", onePayment.Work(ctx, job, func(ctx context.Context) error {
			return oneAccount.Work(ctx, job, func(context.Context) error {
				a.pay()
				return nil
			})
		})
	}
}

func snoozed(err error) bool {
	var snooze *rivertype.JobSnoozeError
	return errors.As(err, &snooze)
}

func onFunc(t *testing.T, redis *redistest.Server, a *account) replica {
	locks := lockfunc.New(newEngine(t, redis))
	book, err := lockfunc.Serialize(locks, "book", func(int) string { return "func:account:1" }, func(context.Context, int) (string, error) {
		return a.pay(), nil
	})
	must(t, err)
	pay, err := lockfunc.Once(locks, "pay", func(id int) string { return "func:payment:" + strconv.Itoa(id) }, book)
	must(t, err)
	return pay
}

// tick is how long a job keeps its key, so that no process that comes late runs it again.
var tick = core.WithMinHold(time.Minute)

// Of three processes one runs the job.
func testCron(t *testing.T, redis *redistest.Server) (outage func()) {
	var ran atomic.Int64
	var jobs []cron.Job
	var all sync.WaitGroup
	for range 3 {
		wrapper, err := lockcron.Serialize(t.Context(), newEngine(t, redis, core.WithLogger(silent)), "cron:job", tick)
		must(t, err)
		j := cron.NewChain(wrapper).Then(lockcron.Func(func(context.Context) error { ran.Add(1); return nil }))
		jobs = append(jobs, j)
		all.Go(j.Run)
	}
	all.Wait()
	n := ran.Load()
	check(t, n == 1, "of three processes %d ran a job", n)
	return func() {
		if jobs[0].Run(); ran.Load() != 1 {
			t.Error("a job ran without a store")
		}
	}
}

// Of three processes one gets the lock of the job.
func testGocron(t *testing.T, redis *redistest.Server) (outage func()) {
	ctx := bounded(t)
	var lockers []*lockgocron.Locker
	var got atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		locker, err := lockgocron.NewLocker(newEngine(t, redis, core.WithLogger(silent)), "gocron:{job}", tick)
		must(t, err)
		lockers = append(lockers, locker)
		all.Go(func() {
			lock, err := locker.Lock(ctx, "job")
			switch {
			case err == nil:
				got.Add(1)
				if err := lock.Unlock(ctx); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			case !errors.Is(err, core.ErrHeld):
				t.Errorf("Lock: %v", err)
			}
		})
	}
	all.Wait()
	n := got.Load()
	check(t, n == 1, "of three processes %d got the lock of a job", n)
	return func() {
		if _, err := lockers[0].Lock(ctx, "job"); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("the lock of a job without a store: %v", err)
		}
	}
}
