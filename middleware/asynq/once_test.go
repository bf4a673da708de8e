package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

func TestMessagesDeliveredTwiceAreProcessedOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Once("im:message", "msg:{payload.id}"))
	var mu sync.Mutex
	processed := make(map[string]int)
	h := l.Middleware(handler(func(_ context.Context, task *asynq.Task) error {
		time.Sleep(2 * time.Millisecond) // the work: long enough for the twin to meet it
		mu.Lock()
		defer mu.Unlock()
		processed[string(task.Payload())]++
		return nil
	}))
	var ids []string
	for i := range 30 {
		for range 2 { // two gateways
			ids = append(ids, q.enqueue("im:message", fmt.Sprintf(`{"id":%d}`, i)))
		}
	}
	q.serve(h)
	q.serve(h)
	for _, id := range ids {
		q.become(id, asynq.TaskStateCompleted)
	}
	if len(processed) != 30 {
		t.Errorf("%d messages were processed, want 30", len(processed))
	}
	for payload, n := range processed {
		if n != 1 {
			t.Errorf("%s was processed %d times", payload, n)
		}
	}
}

// Work with a record but without a result was done all the same, and a task needs no more than
// that.
func TestOnceTakesARecordWithoutResult(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	eng := engine(t, nil)
	_, err := eng.Once(context.Background(), "msg:1", func(context.Context) ([]byte, error) { return nil, core.ErrSkipResult })
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int32
	q.serve(locks(t, eng, lockasynq.Once("im:message", "msg:{payload.id}")).Middleware(handler(func(context.Context, *asynq.Task) error {
		runs.Add(1)
		return nil
	})))
	q.become(q.enqueue("im:message", `{"id":1}`), asynq.TaskStateCompleted)
	if n := runs.Load(); n != 0 {
		t.Errorf("the handler ran %d times", n)
	}
}

// A message in another spelling is the same message where its rule says so: without
// |int each of these had an effect of its own.
func TestOnceOfOneNumberInSeveralSpellings(t *testing.T) {
	t.Parallel()
	spellings := []string{`5`, `5.0`, `5e0`, `50e-1`, `"5"`, `"+5"`}
	for template, want := range map[string]int32{"msg:{payload.id}": int32(len(spellings) - 1), "msg:{payload.id|int}": 1} {
		q := newQueue(t)
		l := locks(t, engine(t, nil), lockasynq.Once("im:message", template, core.WithoutFingerprint()))
		var runs atomic.Int32
		q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
			runs.Add(1)
			return nil
		})))
		var ids []string
		for _, id := range spellings {
			ids = append(ids, q.enqueue("im:message", `{"id":`+id+`}`))
		}
		for _, id := range ids {
			q.become(id, asynq.TaskStateCompleted)
		}
		if n := runs.Load(); n != want {
			t.Errorf("%s: %d effects, want %d", template, n, want)
		}
	}
}

// A failed execution leaves no record: the retry runs.
func TestOnceRemembersNoFailure(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Once("im:message", "msg:{payload.id}"))
	var runs atomic.Int32
	q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
		if runs.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	})))
	id := q.enqueue("im:message", `{"id":1}`)
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 2 || runs.Load() != 3 {
		t.Errorf("completed with %d retries and %d runs, want 2 and 3", info.Retried, runs.Load())
	}
}

// A worker dies when the handler is done and asynq does not know: the
// recoverer has the task run again, and Once does not.
func TestRedeliveryOfAFinishedTaskRunsNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil), lockasynq.Once("im:message", "task:{id}"))
	var runs, deliveries atomic.Int32
	h := handler(func(ctx context.Context, task *asynq.Task) error {
		deliveries.Add(1)
		return l.Middleware(handler(func(context.Context, *asynq.Task) error {
			runs.Add(1)
			return nil
		})).ProcessTask(ctx, task)
	})
	shutdown := q.serve(h)
	id := q.enqueue("im:message", "")
	q.become(id, asynq.TaskStateCompleted)
	shutdown()

	q.loseCompletion(id)
	q.serve(h) // looks for such tasks when it starts
	if info := q.become(id, asynq.TaskStateCompleted); info.Retried != 1 || !strings.Contains(info.LastErr, "lease expired") {
		t.Fatalf("completed with %d retries and last error %q, want the recoverer's one", info.Retried, info.LastErr)
	}
	if runs.Load() != 1 || deliveries.Load() != 2 {
		t.Errorf("the handler ran %d times for %d deliveries, want 1 and 2", runs.Load(), deliveries.Load())
	}
}

// loseCompletion puts a completed task back to where it was before the worker
// told Redis that it is done, as a worker that died then leaves it: active, and
// its asynq lease long over.
func (q *queue) loseCompletion(id string) {
	q.t.Helper()
	q.cli("ZREM", "asynq:{default}:completed", id)
	q.cli("HSET", "asynq:{default}:t:"+id, "state", "active")
	q.cli("LPUSH", "asynq:{default}:active", id)
	q.expireLease(id)
}

func TestOnceComparesContent(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := locks(t, engine(t, nil),
		lockasynq.Once("im:message", "msg:{payload.id}"),
		lockasynq.Once("im:receipt", "msg:{payload.id}"),
		lockasynq.Once("im:typing", "typing:{payload.id}", core.WithoutFingerprint()),
	)
	var runs atomic.Int32
	q.serve(l.Middleware(handler(func(context.Context, *asynq.Task) error {
		runs.Add(1)
		return nil
	})))
	for _, tt := range []struct {
		name, typename, payload string
		archived                bool
		runs                    int32
	}{
		{"first", "im:message", `{"id":1,"text":"a"}`, false, 1},
		{"the same again", "im:message", `{"id":1,"text":"a"}`, false, 1},
		{"other payload", "im:message", `{"id":1,"text":"b"}`, true, 1},
		{"other type", "im:receipt", `{"id":1,"text":"a"}`, true, 1},
		{"first, not compared", "im:typing", `{"id":1,"at":1}`, false, 2},
		{"other payload, not compared", "im:typing", `{"id":1,"at":2}`, false, 2},
	} {
		id := q.enqueue(tt.typename, tt.payload)
		info := q.left(id)
		if want := map[bool]asynq.TaskState{true: asynq.TaskStateArchived, false: asynq.TaskStateCompleted}[tt.archived]; info.State != want {
			t.Errorf("%s: task is %v (%s), want %v", tt.name, info.State, info.LastErr, want)
		}
		if tt.archived && (info.Retried != 0 || !strings.Contains(info.LastErr, "other content")) {
			t.Errorf("%s: archived after %d retries with %q, want 0 and the mismatch", tt.name, info.Retried, info.LastErr)
		}
		if runs.Load() != tt.runs {
			t.Errorf("%s: %d handlers ran so far, want %d", tt.name, runs.Load(), tt.runs)
		}
	}
}

// Type and payload are told apart: moving the border between them makes
// another task.
func TestFingerprintKeepsTypeAndPayloadApart(t *testing.T) {
	t.Parallel()
	h := locks(t, engine(t, nil), lockasynq.Once("a", "k")).Middleware(handler(succeed))
	if err := h.ProcessTask(context.Background(), asynq.NewTask("ab", []byte("c"))); err != nil {
		t.Fatal(err)
	}
	err := h.ProcessTask(context.Background(), asynq.NewTask("a", []byte("bc")))
	if !errors.Is(err, core.ErrFingerprintMismatch) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("error = %v, want ErrFingerprintMismatch and SkipRetry", err)
	}
}
