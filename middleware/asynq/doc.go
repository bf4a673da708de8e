// Package lockasynq (not asynq, which its users import, too) makes asynq tasks take turns by key,
// or be processed once, in all workers of a fleet.
//
//	locks, err := lockasynq.New(eng,
//		lockasynq.Serialize("im:status", "user:status:{payload.user_id}"),
//		lockasynq.Once("im:message", "msg:{payload.id}"),
//	)
//	...
//	mux := asynq.NewServeMux()
//	mux.Use(locks.Middleware)
//	srv := asynq.NewServer(redis, asynq.Config{
//		IsFailure:      lockasynq.IsFailure(nil),
//		RetryDelayFunc: lockasynq.RetryDelay(nil),
//	})
//
// # Which tasks
//
// The pattern of a rule works like a pattern of [asynq.ServeMux]: it covers the task type with
// that name and every type that begins with it. If several rules cover a type, the longest
// pattern counts. So a rule and a handler with the same pattern cover the same tasks, with one
// exception. If only the mux has a longer pattern for a type, its tasks go to another handler,
// but still under the shorter rule. The mux does not tell a middleware which pattern it chose,
// and locking too much is better than locking nothing unnoticed. End patterns with a colon to
// be safe. [Locks.Coverage] lists a program's task types with their rules, and [Locks.Check]
// finds rules that cover none of them.
//
// # Keys
//
// A template ([keytmpl]) takes its values from these sources. Any other name is an error of
// [New].
//
//	{payload.user.id}       a value in a JSON payload; numbers as they are written
//	{payload.members[*].id} one key per element of a list, all taken together
//	{payload}, {payload|hash} the payload's bytes, JSON or not
//	{header.x}              a task header; case counts, and x may contain dots
//	{type} {queue} {id}     of the task
//
// Values are compared as text: 5, 5.0 and "5e0" are three keys, "Ann" and "ann" are two, and so
// is "é" typed as one character or as two. Use filters if clients or gateways may write the
// same value in different ways. They make one spelling, in order and before a digest:
// {payload.id|int}, {payload.name|lower}, {payload.name|lower|hash}; see keytmpl. Once still
// compares content byte by byte, so such a repeat is refused, unless the options have
// core.WithoutFingerprint.
//
// [SerializeFor] and [OnceFor] know the payload's Go type. With them, New refuses a template
// with a field that the type does not have.
//
// The names in a payload are matched exactly. encoding/json is different: when it fills a
// struct, it also takes names in other case. So a payload that has the wanted name and, in
// other case, once more makes no key and is archived. [SerializeBy] and [OnceBy] see what the
// handler sees.
//
// # What becomes of a task that can't run
//
//	the key is held, or too many wait for it   waits a little, then is rescheduled
//	Once: the first execution still runs       waits a little, then is rescheduled
//	Once: already executed                     succeeds, the handler is not called
//	Once: same key, other type or payload      archived
//	key missing or invalid, payload not JSON   archived
//	a key function's own error                 fails
//	store down, engine closed                  rescheduled
//	Once: executed, but its record uncertain   rescheduled
//	Once: rolled back in the database          rescheduled
//	lease lost while the handler ran           fails, whatever the handler returned
//	the task's own timeout, deadline, cancel   as asynq does
//
// Rescheduled ([RescheduleError]) means that the task comes again soon and uses up no retry,
// because the task itself did not fail. An outage of the store is treated like a held key.
// Otherwise an outage of an hour would archive every message of that hour without an attempt. A
// lost lease is different: the handler did run, and a handler that outlives its max hold would
// do so for ever. (The error includes the handler's own, so its [asynq.SkipRetry] and
// [asynq.RevokeTask] still count.)
//
// Archived ([RejectedError]) means that a retry would be useless: the task waits in asynq's
// archive for a person. No task is dropped, unless its rule has Skip or [Rule.KeepLatestBy].
//
// [Rule.OnConflict] changes the first two lines of the table, and no other:
//
//	Reschedule   as above
//	Wait         stays on its worker until its own deadline, which costs a retry
//	Skip         succeeds, the handler is not called; logged and counted
//	Fail         fails, which costs a retry; archived after the last
//
// The server decides whether a retry is used up, and when a task comes again. So its
// configuration needs [IsFailure] and [RetryDelay]. They judge this package's errors and leave
// all others to functions of your own. Without them each conflict costs a retry and asynq's
// delay of a quarter of a minute or more. No task is lost, and a warning is logged once. A
// middleware outside of this one should wrap errors with %w. A server's ErrorHandler is called
// for reschedulings, too, and may skip them with errors.As.
//
// # The newest task
//
// Sometimes a later task makes earlier ones of its key pointless. For example, a change of a
// document makes the indexing of its earlier states pointless. [Rule.KeepLatestBy] then names a
// version in the task. An older task is dropped as soon as a newer one has come to any worker,
// and never runs after it.
//
// # The last attempt
//
// asynq archives a task without retries left after any error, before it asks Config.IsFailure.
// So a task on its last attempt is never rescheduled: it waits on its worker, and tries again
// there, for as long as it has time. A task enqueued with asynq.MaxRetry(0) has only one
// attempt, so give such tasks a timeout with room for a wait. (asynq's default is half an
// hour.)
//
// # Time
//
// A waiting task occupies a worker. So the wait is short: [DefaultMaxWait], unless the rule has
// core.WithMaxWait or core.WithFailFast, and never more than half of the time that the task has
// left. A rescheduled task comes back when the server's forwarder looks for it, every five
// seconds by default (Config.DelayedTaskCheckInterval). It then comes behind tasks that arrived
// meanwhile. The delay follows from how long holders keep the key ([RetryDelay]). It grows
// while the same task comes in vain, unless the rule has a delay of its own
// ([Rule.RescheduleEvery]). If many tasks share a key, give them a queue and a server with a
// concurrency of their own.
//
// The key is held until the handler has returned. asynq abandons a task whose timeout has
// passed, although its handler may still be running. The next task of the key waits for that
// handler. core.WithMaxHold bounds such a hold, with ten minutes by default. Raise it for tasks
// that take longer.
//
// # Once
//
// A message that two gateways enqueue, or that asynq delivers again after a worker died, is
// processed once. An error or panic of the handler is not recorded, so retries work as usual.
// The limits are those of [core.Engine.Once]: if a worker dies between the effect and its
// record, the handler runs again. With fence.WithDatabase among the rule's options the two are one
// step, in a transaction that the handler gets from its context (fence.TxFrom): exactly one effect.
// There is no result: a second task's own [asynq.ResultWriter]
// stays unwritten, and the record only says that the handler succeeded.
//
// # Unique while queued, once when processed
//
// asynq itself can refuse a task when it is enqueued. That differs from Once, and the two go
// well together:
//
//	              asynq.Unique           Locks.TaskID           Once
//	decides       when enqueued          when enqueued          when processed
//	the same is   type, queue, and each  the rule's key, in     the rule's key
//	              byte of the payload    one queue
//	until         the task is done, or   the task has left      core.WithRetention
//	              the option's TTL ends  asynq                  after the success
//	a second one  ErrDuplicateTask       ErrTaskIDConflict      succeeds, not run
//
// The first two keep the queue short: a hundred requests to do the same thing are one task.
// They do not make that task run once. The second request may come when the task has just been
// done, the TTL may end while the task is being retried, and asynq delivers again what a dead
// worker had. Once makes the task run once, but by itself it lets each of the hundred through
// the queue, to look at its record. With both
//
//	id, err := locks.TaskID(ctx, task)
//	...
//	_, err = client.Enqueue(task, id) // IsDuplicate(err): it is queued already
//
// the handler runs once, and there is seldom a task that does nothing.
//
// A task has not left asynq while it waits for a retry, is in the archive, or is kept by
// asynq.Retention. Delete it if its id has to come through again. An asynq.Unique is different:
// it ends with its TTL, whatever happened to the task. Its TTL should be longer than all
// retries take.
//
// # Unique until started
//
// A task that only says "something has changed" also covers later changes while it waits. It
// does not while it runs, because its handler may have read the old state by then. With
// [Rule.UniqueUntilStarted], the TaskID of a rule changes just before the handler is called. So
// a change during a run is followed by another run, and a change before it is a duplicate. Make
// the change before you call TaskID.
//
// # Tasks that the enqueuer waits for
//
// If a producer holds a key until a task is done, and the task takes the same key, the producer
// waits for itself. Package asynqcarry (experimental) lets the task run under the producer's
// lease instead.
//
// # Traces
//
// [TraceHeaders] puts the producer's trace into a task's headers. [Trace], a middleware before
// this one, takes it out. The trace of the request that enqueued a task then also shows its
// wait for a key on a worker.
//
// # Shutting down
//
// Call the server's Stop, then Shutdown, and the engine's Close beside that. A task that runs keeps its
// lease until its handler has returned, if Close has the time. One that waits for a key is rescheduled
// at once; on its last attempt it goes back to its queue when the server's ShutdownTimeout is over.
package lockasynq
