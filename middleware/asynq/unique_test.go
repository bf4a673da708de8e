package lockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestTaskIDRefuses(t *testing.T) {
	t.Parallel()
	l := locks(t, engine(t),
		lockasynq.Once("im:message", "msg:{payload.id}"),
		lockasynq.Once("by:id", "{id}"),
		lockasynq.Once("by:queue", "{queue}"),
		lockasynq.Serialize("im:status", "{payload.id}"),
	)
	for _, tt := range []struct {
		name string
		task *asynq.Task
		is   error
		says string
	}{
		{name: "no task", says: "want a task"},
		{name: "no rule", task: asynq.NewTask("other", nil), says: `"other"`},
		{name: "tasks that take turns", task: asynq.NewTask("im:status", []byte(`{"id":1}`)), says: "processed once"},
		{name: "no key", task: asynq.NewTask("im:message", []byte(`{}`)), is: keytmpl.ErrMissingValue},
		{name: "not JSON", task: asynq.NewTask("im:message", nil), says: "not JSON"},
		{name: "a key with the id", task: asynq.NewTask("by:id", nil), is: keytmpl.ErrMissingValue},
		{name: "a key with the queue", task: asynq.NewTask("by:queue", nil), is: keytmpl.ErrMissingValue},
	} {
		option, err := l.TaskID(context.Background(), tt.task)
		if err == nil || option != nil || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: TaskID() = %v, %v; want an error that matches %v and has %q", tt.name, option, err, tt.is, tt.says)
		}
	}
}

func TestIsDuplicate(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("enqueue: %w", asynq.ErrDuplicateTask): true,
		asynq.ErrTaskIDConflict:                           true,
		errors.New("connection refused"):                  false,
		nil:                                               false,
	} {
		if got := lockasynq.IsDuplicate(err); got != want {
			t.Errorf("IsDuplicate(%v) = %v, want %v", err, got, want)
		}
	}
}

// A gateway that may get a message twice: what is still queued is not queued
// again, and what was processed is not processed again.
func ExampleLocks_TaskID() {
	eng, _ := core.New(memstore.New()) // only the key is made here, nothing is locked
	defer eng.Close(context.Background())
	locks, _ := lockasynq.New(eng,
		lockasynq.Once("im:message", "msg:{payload.id}", core.WithRetention(24*time.Hour)),
	)
	task := asynq.NewTask("im:message", []byte(`{"id":"8f2c","text":"hello"}`))
	id, err := locks.TaskID(context.Background(), task)
	if err != nil {
		log.Fatal(err) // the message has no id
	}
	fmt.Println(id)

	enqueue := func(client *asynq.Client) error {
		_, err := client.Enqueue(task, id)
		if lockasynq.IsDuplicate(err) {
			return nil // the other gateway was faster
		}
		return err
	}
	_ = enqueue
	// Output: TaskID("im:message/msg:8f2c")
}
