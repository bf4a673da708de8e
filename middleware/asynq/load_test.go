package lockasynq_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"

	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// TestManyTasks: 10 000 on 100 keys, 100 workers. None overlaps with another of
// its key, and each is carried out once.
//
// A key's tasks come in a row, so that most workers wait; numbered by turns hardly
// any would.
func TestManyTasks(t *testing.T) {
	const tasks, keys, workers = 10_000, 100, 100
	q := newQueue(t)
	var inside [keys]atomic.Int32
	var served [keys]int // what the lock protects; the race detector looks too
	rules := locks(t, engine(t, nil), lockasynq.Serialize("status", "user:{payload.user}"))
	work := handler(func(_ context.Context, task *asynq.Task) error {
		var key int
		if _, err := fmt.Sscanf(string(task.Payload()), `{"user":%d}`, &key); err != nil {
			return err
		}
		if n := inside[key].Add(1); n > 1 {
			t.Errorf("%d tasks of %d at a time", n, key)
		}
		runtime.Gosched() // let another in, if it could
		served[key]++
		inside[key].Add(-1)
		return nil
	})

	var next atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < tasks; i = next.Add(1) - 1 {
				payload := `{"user":` + strconv.FormatInt(i*keys/tasks, 10) + `}`
				if _, err := q.client.Enqueue(asynq.NewTask("status", []byte(payload))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	q.serve(rules.Middleware(work), func(cfg *asynq.Config) { cfg.Concurrency = workers })
	await(t, "the last task", func() bool {
		info, err := q.inspector.GetQueueInfo("default")
		return err == nil && info.Size == 0
	})
	for key, n := range served {
		if n != tasks/keys {
			t.Errorf("%d tasks of %d were carried out, want %d", n, key, tasks/keys)
		}
	}
}
