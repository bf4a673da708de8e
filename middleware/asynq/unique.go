package lockasynq

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/hibiken/asynq"
)

// TaskID returns the option that makes asynq accept a task only while no other task with its
// rule's key is in the queue: [asynq.TaskID] with the pattern and the key. The rule must be one
// of [Once] and its other forms, or have [Rule.UniqueUntilStarted]: other tasks are each work
// of their own. Its key cannot have {id} or {queue}, which are not known yet. For a rule of
// Once there is no I/O. A producer without rules can compute an id itself: it only has to
// follow from what makes a message the same.
//
//	id, err := locks.TaskID(ctx, task)
//	...
//	if _, err := client.Enqueue(task, id); err != nil && !lockasynq.IsDuplicate(err) {
//
// The package comment says how this differs from [asynq.Unique] and from processing a task
// once.
func (l *Locks) TaskID(ctx context.Context, task *asynq.Task) (asynq.Option, error) {
	if task == nil {
		return nil, errors.New("lockasynq: TaskID: want a task")
	}
	r := l.find(task.Type())
	if r == nil || !r.Once && !r.untilStarted {
		return nil, fmt.Errorf("lockasynq: TaskID: no rule says that tasks of type %q are processed once, or unique until started", task.Type())
	}
	keys, err := r.Required(newRequest(ctx, task)) // without a key, all tasks of a shadow would have one id
	if keys.Skipped() {
		return nil, fmt.Errorf("lockasynq: TaskID: rule for %q skips this task, so it has no id", r.Name)
	}
	id := r.id(keys.First)
	if err == nil && r.untilStarted {
		id, err = r.waitingID(ctx, keys.First)
	}
	if err != nil {
		return nil, fmt.Errorf("lockasynq: TaskID: rule for %q: %w", r.Name, err)
	}
	return asynq.TaskID(id), nil
}

// id returns the id of the task of key. Those of two rules differ: no escaped pattern has a slash.
func (c *checked) id(key string) string { return url.PathEscape(c.Name) + "/" + key }

// IsDuplicate reports whether asynq refused to enqueue a task because of a similar one, by
// [asynq.TaskID] or [asynq.Unique]. For most producers that is no error, because the work will
// be done.
func IsDuplicate(err error) bool {
	return errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)
}
