// Package lockfunc (func is a keyword) puts rules around plain functions: one call at a time per
// key, or one call per key, in all processes of a fleet. It is for functions without a middleware:
// a cron job, a consumer of a queue, an activity of a workflow.
//
//	locks := lockfunc.New(eng)
//	deliver, err := lockfunc.Serialize(locks, "deliver",
//		func(m Message) string { return "user:" + m.To }, deliver)
//
// With fence.WithDatabase among its options, [Once] has exactly one effect on a database.
//
// Decorate functions when the program starts, not per call. [Locks.Coverage] lists them.
package lockfunc
