package lockasynq

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// UniqueUntilStarted returns the rule for tasks that only say that something has changed. One
// waiting task then covers all changes until its handler is called:
//
//	lockasynq.Serialize("index", "index:{payload.id}").UniqueUntilStarted()
//	...
//	save(doc) // first the change, then the task
//	id, err := locks.TaskID(ctx, task)
//	...
//	if _, err := client.Enqueue(task, id); err != nil && !lockasynq.IsDuplicate(err) {
//
// While a task of the key waits, also for a retry of its first start, another one is a
// duplicate, and asynq refuses it ([IsDuplicate]). As soon as the handler is about to be
// called, under the key, asynq accepts the next task, which runs afterwards. So a change that
// was made before the call of TaskID is seen by a run that begins after it, and a hundred
// changes in a row cause a few runs. The key has to name everything that the handler needs,
// because the payloads of duplicates are dropped.
//
// Producers need the rule, too, and an engine over the same store. The store remembers how many
// tasks of a key have started, for core.WithRetention after the last start.
//
//   - After the retention, or if two producers are the first ever for a key at the same time,
//     one task more than needed may be queued.
//   - After a failover to a replica that lags, a change may count as a duplicate of the task
//     that runs.
//   - A task may be archived before its handler was ever called, because its asynq.Deadline was
//     over. It then blocks its id until it is deleted or run, as with asynq.TaskID in general.
//
// The rule takes one key, exclusively, made without {id} and {queue}. It cannot be a rule of Once, or be combined with
// [Rule.KeepLatestBy]. It cannot be combined with [Skip], which would drop the task for a
// change during a run, nor with core.WithRunUnlocked.
func (r Rule) UniqueUntilStarted() Rule {
	r.untilStarted = true
	return r
}

// waits returns the key under which the store keeps the number of key's waiting task.
func (c *checked) waits(key string) string { return remembered("waits", c.Name, key) }

// waitingID returns the id of the task of key that waits, or would be the next to wait. Each
// number belongs to one task, which raises it when it starts. If a producer reads the number
// before that, that task sees its change. If it reads the number after that, it gets the next
// one.
//
// If nothing is remembered, the number begins with the time. So the id is not that of an
// earlier task, which may still be in asynq's archive. The time is in milliseconds, so that
// most producers that come at once begin with the same number. The store remembers a number for
// at least as long, so none is given again after it was forgotten.
func (c *checked) waitingID(ctx context.Context, key string) (string, error) {
	n, err := c.AdvanceVersion(ctx, c.waits(key), 0)
	if err == nil && n == 0 {
		n, err = c.AdvanceVersion(ctx, c.waits(key), uint64(time.Now().Truncate(time.Millisecond).UnixMicro()))
	}
	return c.id(key) + "/" + strconv.FormatUint(n, 10), err
}

// started notes that the task no longer waits, so that the next one is no duplicate of it. A
// task that was enqueued without [Locks.TaskID] has no number; the first such task of a rule is
// logged.
func (w work) started(ctx context.Context) error {
	if !w.untilStarted {
		return nil
	}
	id, _ := asynq.GetTaskID(ctx)
	number, ours := strings.CutPrefix(id, w.id(w.keys.First)+"/")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ours || err != nil {
		if id != "" && !w.warned.Swap(true) { // no duplicate was ever refused, and nothing else shows that
			slog.WarnContext(ctx, "lockasynq: a task of a rule with UniqueUntilStarted was enqueued without Locks.TaskID, so it is not unique",
				"rule", w.Name, "id", w.shownID(ctx))
		}
		return nil
	}
	_, err = w.AdvanceVersion(ctx, w.waits(w.keys.First), n+1)
	return err
}
