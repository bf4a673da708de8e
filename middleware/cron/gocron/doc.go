// Package lockgocron (not gocron, which its users import, too) makes the jobs of
// github.com/go-co-op/gocron/v2 run on one process of a fleet per tick, or all of them on one
// process of the fleet.
//
//	locker, err := lockgocron.NewLocker(eng, "cron:{job}", core.WithMinHold(30*time.Second))
//	...
//	schedule, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// With a [Locker], each process has the same jobs. At each tick, the first process takes the job's
// key and runs the job. The others find the key held, and leave this tick to it. Any process may
// have the next tick.
//
// With an [Elector], one process runs all jobs, until it stops or fails. Then another one does.
//
// # Clocks
//
// The clocks of the processes differ. Without a min hold, a short job would be over before the
// process whose clock is behind begins with the same tick, and would run again. A Locker keeps its
// keys for half a second at least. Choose more if your clocks differ by more, but less than the
// interval: core.WithMinHold with half the interval is a good value. The store must support it
// (driver.Description), otherwise [NewLocker] returns an error that matches errors.ErrUnsupported,
// unless its options have core.WithMinHold(0).
//
// gocron.DurationJob counts from the start of each process, so the processes tick at different
// times, and the job runs at each of them. Give such a job gocron.WithStartAt with a time that is
// the same in all processes, or use gocron.CronJob.
//
// An Elector has no min hold: if the leader dies just after a tick, its successor runs the same
// tick if its clock is behind.
//
// # A lost lease
//
// gocron gives a job no context that a Locker could end. If the lease is lost while the job runs,
// the engine logs it, and the next tick may run beside the job. A job that must not overlap has a
// rule of its own around its function (lockfunc), or fences what it writes.
//
// # What a refused tick gets
//
// gocron leaves the tick out, and tells the job's event listener gocron.AfterLockError the engine's
// error: core.ErrHeld if another process has the tick, core.ErrUnavailable in an outage. With an
// Elector it is left out without such an event.
package lockgocron
