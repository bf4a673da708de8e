// Package lockasynq has asynq tasks take turns by key, or be processed once, in
// all workers of a fleet.
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
// A rule's pattern is what a pattern of [asynq.ServeMux] is: it covers the task
// type of that name and every type that begins with it, and of several rules
// the longest counts. So a rule and a handler registered under one name cover
// the same tasks, except for types that have a longer pattern in the mux alone:
// they go to another handler and still under the shorter rule. The mux does not
// tell a middleware which pattern it chose, and to lock too much was thought
// better than to lock nothing unnoticed. End patterns with a colon to be safe.
// [Locks.Coverage] lists a program's task types with their rules, and
// [Locks.Check] finds rules that cover none of them.
//
// # Keys
//
// A template ([keytmpl]) takes its values from these sources. Any other name is
// an error of [New].
//
//	{payload.user.id}       a value in a JSON payload; numbers as they are written
//	{payload.members[*].id} one key per element of a list, all taken together
//	{payload}, {payload|hash} the payload's bytes, JSON or not
//	{header.x}              a task header; case counts, and x may contain dots
//	{type} {queue} {id}     of the task
//
// A value is the text as it came: 5, 5.0 and "5e0" are three keys, "Ann" and "ann"
// two, and so is "é" typed as one character or as two. Filters make one of them, in
// order and before a digest: {payload.id|int}, {payload.name|lower}, {payload.name|lower|hash}; see
// keytmpl. Use them where clients or gateways may write the same value in different
// ways. Once compares content byte by byte all the same: such a repeat is refused,
// unless core.WithoutFingerprint is among the options.
//
// [SerializeFor] and [OnceFor] know the payload's Go type, so that New refuses a
// template that asks it for what it has not.
//
// The names in a payload are matched exactly. encoding/json, filling a struct,
// also takes names in other case, so a payload that has the name which is asked
// for and, in other case, once more makes no key and is archived; [SerializeBy]
// and [OnceBy] see what the handler sees.
//
// # What becomes of a task that can't run
//
//	the key is held, or too many wait for it   waits a little, then is rescheduled
//	Once: the first execution still runs       waits a little, then is rescheduled
//	Once: already executed                     succeeds, the handler is not called
//	Once: same key, other type or payload      archived
//	key missing or invalid, payload not JSON   archived
//	store down, engine closed                  rescheduled
//	Once: executed, but its record uncertain   rescheduled
//	lease lost while the handler ran           fails, whatever the handler returned
//	the task's own timeout, deadline, cancel   as asynq does
//
// Rescheduled ([RescheduleError]) means that the task comes again soon and no
// retry is used up: it was not the task that failed. An outage of the store is
// no different there from a held key, as otherwise an hour of it would archive
// every message of that hour without one of them having been looked at. A lost
// lease is different: the handler did run, and one that outlives its max hold
// would do so for ever. (The handler's error goes along: its [asynq.SkipRetry]
// and [asynq.RevokeTask] are its own decisions.) Archived ([RejectedError]) is
// what asynq does with what is not worth retrying: the task waits there for a
// person. No task is dropped, unless its rule says Skip or
// [Rule.KeepLatestBy].
//
// [Rule.OnConflict] changes the first two lines of the table, and no other:
//
//	Reschedule   as above
//	Wait         stays on its worker until its own deadline, which costs a retry
//	Skip         succeeds, the handler is not called; logged and counted
//	Fail         fails, which costs a retry; archived after the last
//
// That no retry is used up, and when a task comes again, is up to the server:
// its configuration needs [IsFailure] and [RetryDelay], which judge this
// package's errors and leave all others to functions of your own. Without them
// each conflict costs a retry and asynq's delay of a quarter of a minute and
// more; no task is lost, and a warning is logged once. A middleware outside of
// this one should wrap errors with %w. A server's ErrorHandler is told of
// reschedulings too, and may want to skip them with errors.As.
//
// # The newest task
//
// Where a later task makes earlier ones of its key pointless, as a change of a
// document does the indexing of its earlier states, [Rule.KeepLatestBy] names a
// version in the task. An older one is then dropped as soon as a newer one has
// come to any worker, and never runs after it.
//
// # The last attempt
//
// Asynq archives a task without retries left on any error, before it asks
// Config.IsFailure. On its last attempt a task therefore is never rescheduled:
// it waits on its worker, and tries again there, for as long as it has time.
// A task enqueued with asynq.MaxRetry(0) has no other attempt than that, so give
// such tasks a timeout that a wait fits into. (Asynq's is half an hour.)
//
// # Time
//
// A task that waits keeps a worker from others. So the wait is short:
// [DefaultMaxWait], if the rule does not say otherwise with core.WithMaxWait or
// core.WithFailFast, and never more than half of the time that the task has
// left. A rescheduled task comes back when the server's forwarder looks for it:
// every five seconds, unless Config.DelayedTaskCheckInterval says otherwise, and
// it comes behind those which arrived meanwhile. When it is to come again follows
// from how long the key's holders keep it ([RetryDelay]), and grows while the same
// task comes in vain, unless the rule has a delay of its own
// ([Rule.RescheduleEvery]). Where many tasks share a key,
// give them a queue and a server with a concurrency of their own.
//
// The key is held until the handler has returned. Asynq lets go of a task whose
// timeout has passed while its handler may still be running; the next task of
// the key waits for that handler. What would hold it for ever is bounded by
// core.WithMaxHold, ten minutes by default: raise it for tasks that take longer.
//
// # Once
//
// A message that two gateways enqueue, or that asynq delivers again after a
// worker died, is processed once. An error or panic of the handler is not
// remembered, so retries work as ever. The limits are those of
// [core.Engine.Once]: a worker that dies between the effect and its record makes
// the handler run again. There is no result: a second task's own
// [asynq.ResultWriter] stays unwritten, and the handler's only trace in the
// record is that it succeeded.
//
// # Unique while queued, once when processed
//
// Asynq itself can refuse a task when it is enqueued. That and Once do different
// things, for different reasons, and go well together:
//
//	              asynq.Unique           Locks.TaskID           Once
//	decides       when enqueued          when enqueued          when processed
//	the same is   type, queue, and each  the rule's key, in     the rule's key
//	              byte of the payload    one queue
//	until         the task is done, or   the task has left      core.WithRetention
//	              the option's TTL ends  asynq                  after the success
//	a second one  ErrDuplicateTask       ErrTaskIDConflict      succeeds, not run
//
// The first two keep the queue short: a hundred requests to do the same thing
// are one task. They do not make that one run once: the second request may come
// when the task has just been done, the TTL may end while it is being retried,
// and asynq delivers again what a dead worker had. Once does, and alone it lets
// each of the hundred through the queue, to a look at its record. With both
//
//	id, err := locks.TaskID(ctx, task)
//	...
//	_, err = client.Enqueue(task, id) // IsDuplicate(err): it is queued already
//
// the handler runs once, and seldom is there a task that does nothing. A task has
// not left asynq while it waits for a retry, lies in the archive, or is kept by
// asynq.Retention: an id that is to come through again needs it deleted. Unlike
// that, an asynq.Unique is over at its TTL, whatever became of the task; give it
// more than all retries take.
//
// # Unique until started
//
// A task that says no more than that something has changed can speak for later
// changes while it waits, and not when it runs: its handler may have read the old
// state by then. With [Rule.UniqueUntilStarted] a rule's TaskID is another one from
// the moment on at which the handler is about to be called, so a change that comes
// during a run is followed by another run, and one that comes before is a duplicate.
// The change has to be there before TaskID is called.
//
// # Tasks that the enqueuer waits for
//
// A producer that holds a key until a task is done, and waits for it, waits for itself if the
// task takes the same key. Package asynqcarry (experimental) lets the task run under the
// producer's lease instead.
//
// # Traces
//
// [TraceHeaders] puts the producer's trace into a task's headers, and [Trace], a
// middleware to be used before this one, takes it out: who waits for a key on a
// worker is then seen in the trace of the request that enqueued the task.
//
// # Shutting down
//
// Shut the server down first and close the engine after it. Tasks that wait for
// a key when the server's ShutdownTimeout is over go back to their queue.
package lockasynq
