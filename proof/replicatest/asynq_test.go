package replicatest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// A message that two workers get is processed once, and one after the other within its group. The queue is
// not part of the test: asynq needs a Redis, whatever the locks are in.
func TestAsynq(t *testing.T) { onBackends(t, testAsynq) }

func testAsynq(t *testing.T, b *backend) {
	var balance, payments atomic.Int64
	pay := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		read := balance.Load()
		time.Sleep(time.Millisecond) // room for the other worker, if it got in
		balance.Store(read + 1)
		payments.Add(1)
		return nil
	})
	worker := func() asynq.Handler {
		eng := newEngine(t, b)
		once, err := lockasynq.New(eng, lockasynq.Once("payment", "payment:{payload.id}").OnConflict(lockasynq.Wait))
		if err != nil {
			t.Fatal(err)
		}
		serial, err := lockasynq.New(eng, lockasynq.Serialize("payment", "account:{payload.account}").OnConflict(lockasynq.Wait))
		if err != nil {
			t.Fatal(err)
		}
		return once.Middleware(serial.Middleware(pay))
	}
	workers := []asynq.Handler{worker(), worker()}
	ctx := bounded(t)
	task := func(id int) *asynq.Task {
		return asynq.NewTask("payment", fmt.Appendf(nil, `{"id":%d,"account":1}`, id))
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if err := workers[i%2].ProcessTask(ctx, task(i/2)); err != nil {
				t.Errorf("task %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if balance.Load() != 20 || payments.Load() != 20 {
		t.Errorf("%d payments, %d of them on the balance; want 20", payments.Load(), balance.Load())
	}
}
