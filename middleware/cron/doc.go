// Package lockcron (not cron, which its users import, too) makes a job of github.com/robfig/cron
// run on one process of a fleet per tick.
//
//	once, err := lockcron.Serialize(ctx, eng, "cron:cleanup", core.WithMinHold(30*time.Second))
//	...
//	schedule.AddJob("*/5 * * * *", cron.NewChain(once).Then(lockcron.Func(cleanup)))
//
// All processes of the fleet have the same schedule. At each tick, the first one takes the key and
// runs the job. The others find the key held, and leave this tick to it. So a tick is also left out
// if the last run still goes on anywhere.
//
// # Clocks
//
// The clocks of the processes differ. Without a min hold, a short job would be over before the
// process whose clock is behind begins with the same tick, and would run again. The rule keeps its
// key for half a second at least. Choose more if your clocks differ by more, but less than the
// interval: core.WithMinHold with half the interval is a good value. The store must support it
// (driver.Description), otherwise [Serialize] returns an error that matches errors.ErrUnsupported,
// unless the rule has core.WithMinHold(0).
//
// cron's "@every 5m" counts from the start of each process, so the processes tick at different
// times, and the job runs at each of them. Use it with a min hold of nearly the interval, or
// write "*/5 * * * *".
//
// # What the job gets
//
// A job of cron has no context. A [Func] has one: it is the lease's, and ends when the lease is
// lost. A job that ignores a loss may run beside the next one. core.LeaseFrom has the fencing token.
//
// # What happens otherwise
//
//	case                            the job       log                    hook
//	another process has the tick    left out                             observe.Hooks.Skipped
//	store down                      left out      warn, with the error   observe.Hooks.AcquireEnd
//	the same, core.WithRunUnlocked  runs                                 observe.Hooks.Unlocked
//	engine closed before            left out      warn, with the error
//	lease lost while it runs        its context   warn, of the engine    observe.Hooks.HoldEnd
//	                                ends
//	a Func returns an error         ran           error
//
// For work that never ends, or jobs that need a state in memory, see core.Engine.Lead.
package lockcron
