package replicatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"

	"github.com/keyturn/keyturn/core"
	lockcron "github.com/keyturn/keyturn/middleware/cron"
	lockgocron "github.com/keyturn/keyturn/middleware/cron/gocron"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

// TestOnOneServer runs the middlewares that need no server of their own on one.
func TestOnOneServer(t *testing.T) {
	onBackends(t, func(t *testing.T, b *backend) {
		var outages []func()
		for _, test := range []func(*testing.T, *backend) func(){testConnect, testRiver, testCron, testGocron} {
			outages = append(outages, test(t, b))
		}
		b.kill()
		var all sync.WaitGroup
		for _, test := range outages {
			all.Go(test)
		}
		all.Wait()
	})
}

// A job that two workers get is worked once, and one after the other for its account. The queue is not part of
// the test: River needs PostgreSQL, whatever the locks are in.
func testRiver(t *testing.T, b *backend) (outage func()) {
	var balance, payments atomic.Int64
	work := func() func(context.Context, int) error {
		eng := newEngine(t, b)
		wait := core.WithMaxWait(30 * time.Second)
		once, err := lockriver.New(eng, lockriver.Once("payment", "river:payment:{args.id}", wait))
		if err != nil {
			t.Fatal(err)
		}
		serial, err := lockriver.New(eng, lockriver.Serialize("payment", "river:account:{args.account}", wait))
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, id int) error {
			job := &rivertype.JobRow{Kind: "payment", EncodedArgs: fmt.Appendf(nil, `{"id":%d,"account":1}`, id)}
			return once.Work(ctx, job, func(ctx context.Context) error {
				return serial.Work(ctx, job, func(context.Context) error {
					read := balance.Load()
					time.Sleep(time.Millisecond) // room for the other worker, if it got in
					balance.Store(read + 1)
					payments.Add(1)
					return nil
				})
			})
		}
	}
	workers := []func(context.Context, int) error{work(), work()}
	ctx := bounded(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if err := workers[i%2](ctx, i/2); err != nil {
				t.Errorf("job %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if balance.Load() != 20 || payments.Load() != 20 {
		t.Errorf("%d payments, %d of them on the balance; want 20", payments.Load(), balance.Load())
	}
	return func() {
		var snoozed *rivertype.JobSnoozeError
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := workers[0](ctx, 0); !errors.As(err, &snoozed) {
			t.Errorf("a job without a store: %v", err)
		}
	}
}

// tick is how long a job keeps its key, so that no process that comes late runs it again.
var tick = core.WithMinHold(time.Minute)

// Of three processes one runs the job.
func testCron(t *testing.T, b *backend) (outage func()) {
	var ran atomic.Int64
	var jobs []cron.Job
	for range 3 {
		wrapper, err := lockcron.Serialize(t.Context(), newEngine(t, b, core.WithLogger(silent)), "cron:job", tick)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, cron.NewChain(wrapper).Then(lockcron.Func(func(context.Context) error { ran.Add(1); return nil })))
	}
	run := func() {
		var all sync.WaitGroup
		for _, j := range jobs {
			all.Go(j.Run)
		}
		all.Wait()
	}
	run()
	if n := ran.Load(); n != 1 {
		t.Errorf("of three processes %d ran a job", n)
	}
	return func() {
		if jobs[0].Run(); ran.Load() != 1 {
			t.Error("a job ran without a store")
		}
	}
}

// Of three processes one gets the lock of the job.
func testGocron(t *testing.T, b *backend) (outage func()) {
	ctx := bounded(t)
	var lockers []*lockgocron.Locker
	for range 3 {
		locker, err := lockgocron.NewLocker(newEngine(t, b, core.WithLogger(silent)), "gocron:{job}", tick)
		if err != nil {
			t.Fatal(err)
		}
		lockers = append(lockers, locker)
	}
	var got atomic.Int64
	var all sync.WaitGroup
	for _, l := range lockers {
		all.Go(func() {
			lock, err := l.Lock(ctx, "job")
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
	if n := got.Load(); n != 1 {
		t.Errorf("of three processes %d got the lock of a job", n)
	}
	return func() {
		if _, err := lockers[0].Lock(ctx, "job"); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("the lock of a job without a store: %v", err)
		}
	}
}
