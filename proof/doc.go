// Package proof checks the stores, and the engine on top of them, against what
// [driver.Store] promises, by means that do not depend on somebody having thought of
// the case.
//
// # Programs
//
// [Model] is a sequential model of a backend. Random programs of some dozens of
// steps ([Step]) run against a store and the model side by side ([Rig.Run]): after
// each step the answers, the waiters that were let in, and all that
// Inspect shows must be the model's. A program that fails is made as short as it
// can be before it is shown. Where the contract leaves open what happens, such as
// in which order two sets go on that are let in at the same moment, there are
// several models, and the store has to agree with one of them all the time.
//
// memstore runs in a bubble of testing/synctest: time stands still during a step,
// and every lease ends to the millisecond. redisstore runs on a real server, and on
// one that is a cluster, where a set takes several scripts. There leases end only
// in steps that are about that, and what should be is waited for for some seconds.
// A shared lease that ran out may be taken for an exclusive one, when it is decided
// who is next. Half of the programs let nothing run out and have waiters look by
// themselves so seldom that a message that was not sent is missed.
//
// Not compared: RetryAfter and Ahead of a refusal, Since of holders and waiters,
// the notes (the suite in core/drivertest looks at these); and the tokens but for
// their order. Not tried: stores that are closed or cut off, owners who ask for
// something else while they hold or wait for something, and a forced release of
// what a set has that waits for the rest.
//
// # Histories
//
// Several processes with engines of their own, on one real Redis, take and free
// locks of all modes, extend them, share what they had alone and take keys from each
// other by force, while some are killed and others stopped and continued. Each
// writes down what it was granted and until when it was entitled to act, on the one
// clock that they share. [Check] then looks for sections that overlap and may not,
// for tokens out of order, for leases that were renewed or given back after somebody
// had taken them away, and, where a key is claimed exclusively only, for an order of
// all operations that makes it one lock with rising tokens ([linearizability], by
// github.com/anishathalye/porcupine).
//
// The same is done on memstore, in a bubble, by engines that nobody kills: a minute
// takes a second there.
//
// What is proven is about that run. A section counts as far as it is certain: from
// when the answer was there until the release began, the holder's own deadline, the
// last moment that its process was known to live, or the first at which it may have
// been taken away. So what a checker complains of is wrong, and an overlap of less
// than that goes unseen. A lease that is being extended is certain until the end of
// the shorter of both terms; one that is being downgraded counts as shared from when
// that was begun, and is two sections for the checker. Hand-offs within a process are
// in it: they are sections with tokens of their own, and what is handed on after it
// was taken away is none. Not in it: what a holder does past its deadline, which is
// for fencing tokens; leases that are carried to another process; a Redis that loses
// its data, fails over, or is spread over a cluster; executions by Once.
//
// # Controls
//
// A checker that sees nothing proves nothing. So there are tests in which stores are
// broken, and histories made up, for the checkers to reject.
//
// # Running it
//
// It needs redis-server, and a Unix system.
//
//	go test -race ./proof                        as part of make test, within a minute
//	go test ./proof -rapid.checks=10000          more programs
//	go test ./proof -rapid.seed=...              one that failed, again
//
// [linearizability]: https://cs.brown.edu/~mph/HerlihyW90/p463-herlihy.pdf
package proof
