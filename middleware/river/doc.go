// Package lockriver (not river, which its users import, too) applies rules to the jobs of
// github.com/riverqueue/river: one job at a time per key, or one job per message, in all processes
// of a fleet.
//
//	locks, err := lockriver.New(eng,
//		lockriver.Serialize("im_status", "user:status:{args.user_id}"),
//		lockriver.Once("deliver", "message:{args.message_id}"),
//	)
//	...
//	client, err := river.NewClient(driver, &river.Config{Middleware: []rivertype.Middleware{locks}, ...})
//
// # Keys
//
// A placeholder names a value of the job: {args.user_id} or {args.members[*].id} in its arguments
// (JSON), {kind}, {queue} or {id}. [SerializeBy] and [OnceBy] take a function that makes the key.
//
// River's own unique jobs decide what gets into the queue. These rules decide what runs at the same
// time, also beside requests over gRPC or HTTP.
//
// # What a job gets
//
//	case                             River's answer                       attempt
//	its turn                         the worker runs; its context is the lease's
//	held, or too many jobs wait      snoozed (river.JobSnooze)            not counted
//	store down, engine closed        snoozed                              not counted
//	rolled back (fence.WithDatabase) snoozed                              not counted
//	carried out before (Once)        completed, the worker does not run
//	same key, other arguments (Once) cancelled (river.JobCancel)
//	no key, or an invalid one        cancelled
//	a key function's own error       an error: retried                    counted
//	recorded or not, not known       snoozed                              not counted
//	lease lost while it ran          an error: retried                    counted
//	the worker's own error           as it is
//
// A job waits for its key on its worker for 2 s at most ([DefaultMaxWait], core.WithMaxWait), and is
// snoozed then for as long as the engine expects the key to be held, 1 s at least. River counts
// snoozes in the job's metadata.
//
// Once records that a job of the key has succeeded, without a result: recorded outputs of River are
// the job's own. The fingerprint is that of kind and arguments.
//
// [Locks.Coverage] lists which kinds of jobs have a rule.
package lockriver
