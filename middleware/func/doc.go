// Package lockfunc puts rules of keyturn around plain functions: one call at a time per key,
// or one call per key, across every process of the fleet. It is for what has no middleware
// of its own: a cron job, a consumer of a queue, a workflow's activity.
//
//	locks := lockfunc.New(eng)
//	deliver, err := lockfunc.Serialize(locks, "deliver",
//		func(m Message) string { return "user:" + m.To }, deliver)
//
// Decorate functions when the program starts, not per call. [Locks.Coverage] lists them.
package lockfunc
