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
	"github.com/robfig/cron/v3"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	lockcron "github.com/keyturn/keyturn/middleware/cron"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

// The queue is not part of the test: asynq needs a Redis, whatever the locks are in.

func unavailable(err error) bool { return errors.Is(err, core.ErrUnavailable) }

func onAsynq(t *testing.T, b *backend, a *account) replica {
	eng := newEngine(t, b)
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

func onFunc(t *testing.T, b *backend, a *account) replica {
	locks := lockfunc.New(newEngine(t, b))
	book, err := lockfunc.Serialize(locks, "book", func(int) string { return "func:account:1" }, func(context.Context, int) (string, error) {
		return a.pay(), nil
	})
	must(t, err)
	pay, err := lockfunc.Once(locks, "pay", func(id int) string { return "func:payment:" + strconv.Itoa(id) }, book)
	must(t, err)
	return pay
}

// Of three processes one runs the job. It keeps the key, so that no process that comes late runs it again.
func testCron(t *testing.T, b *backend) (outage func()) {
	var ran atomic.Int64
	var jobs []cron.Job
	var all sync.WaitGroup
	for range 3 {
		wrapper, err := lockcron.Serialize(t.Context(), newEngine(t, b, core.WithLogger(silent)), "cron:job", core.WithMinHold(time.Minute))
		must(t, err)
		j := cron.NewChain(wrapper).Then(lockcron.Func(func(context.Context) error { ran.Add(1); return nil }))
		jobs = append(jobs, j)
		all.Go(j.Run)
	}
	all.Wait()
	if n := ran.Load(); n != 1 {
		t.Errorf("of three processes %d ran a job", n)
	}
	return func() {
		if jobs[0].Run(); ran.Load() != 1 {
			t.Error("a job ran without a store")
		}
	}
}
