package lockasynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
)

// TaskID returns the option that has asynq take a task only while no other of
// its rule's key is in the queue: [asynq.TaskID] with the pattern and the key.
// The rule has to be one of [Once] and the like, or of [Rule.UniqueUntilStarted], as
// other tasks that take turns are each work of their own; its key can't have {id} or
// {queue} in it, which are not known yet. For a rule of Once's there is no I/O, and
// a producer that has no rules of its own computes the id itself: all that counts is
// that it follows from what makes a message the same.
//
//	id, err := locks.TaskID(ctx, task)
//	...
//	if _, err := client.Enqueue(task, id); err != nil && !lockasynq.IsDuplicate(err) {
//
// See the package comment for how this differs from [asynq.Unique] and from
// processing a task once.
func (l *Locks) TaskID(ctx context.Context, task *asynq.Task) (asynq.Option, error) {
	if task == nil {
		return nil, errors.New("lockasynq: TaskID: want a task")
	}
	r := l.find(task.Type())
	if r == nil || !r.Once && !r.untilStarted {
		return nil, fmt.Errorf("lockasynq: TaskID: no rule says that tasks of type %q are processed once, or unique until started", task.Type())
	}
	keys, err := r.Keys(newRequest(ctx, task))
	id := r.Name + "/" + keys.First
	if err == nil && r.untilStarted {
		id, err = r.waitingID(ctx, keys.First)
	}
	if err != nil {
		return nil, fmt.Errorf("lockasynq: TaskID: rule for %q: %w", r.Name, err)
	}
	return asynq.TaskID(id), nil
}

// IsDuplicate reports whether asynq did not enqueue a task because there is one
// like it, by [asynq.TaskID] or [asynq.Unique]. It is no error to most producers:
// what they want done will be done.
func IsDuplicate(err error) bool {
	return errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)
}
