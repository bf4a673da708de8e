// Package proof checks the stores, and the engine on top of them, against the promises of
// [driver.Store]. Its methods do not depend on somebody having thought of the case.
//
// # Programs
//
// Random programs of package core/drivertest/model run against a store and its model side by
// side. A program that fails is made as short as possible before it is shown.
//
// memstore runs in a bubble of testing/synctest: time stands still during a step, and every
// lease ends to the millisecond. redisstore runs on a real server, and on one that is a
// Cluster, where a set takes several scripts. There, leases end only in steps that are about
// that, and the program waits some seconds for an expected result. A shared lease that ran out
// may count as an exclusive one when the store decides who is next. Half of the programs let
// nothing run out, and make waiters poll so seldom that a missing message shows.
//
// # Histories
//
// Several processes with engines of their own, on one real Redis, take and release locks of all
// modes, extend and downgrade them, and take keys from each other by force. Meanwhile some
// processes are killed, and others stopped and continued. Each process writes down what it was
// granted and until when it was entitled to act, on the one clock that they share. Package
// history then looks for sections that overlap but must not, for tokens out of order, and for
// leases that were renewed or released after somebody had taken them away. For a key that is
// claimed only exclusively, it also looks for an order of all operations that makes the key one
// lock with rising tokens ([linearizability], by github.com/anishathalye/porcupine).
//
// The same is done on memstore, in a bubble, with engines that nobody kills. A minute takes a
// second there.
//
// The proof is about that run. A section counts only as far as it is certain: it begins when
// the answer was there. It ends at the first of these moments: when the release began, at the
// holder's own deadline, at the last moment when its process was known to live, or when it may
// have been taken away. So a complaint of a checker is always justified, and a shorter overlap
// is not seen. A lease that is being extended is certain until the end of the shorter of both
// terms. One that is being downgraded counts as shared from the beginning of the downgrade, and
// is two sections for the checker. Hand-offs within a process are included: they are sections
// with tokens of their own, and a lease that is handed on after it was taken away does not
// count.
//
// Not included are: what a holder does after its deadline, which is for fencing tokens; leases
// that are carried to another process; a Redis that loses its data, fails over, or is a
// Cluster; and executions by Once.
//
// # Controls
//
// A checker that sees nothing proves nothing. So tests break stores, and make up histories,
// that the checkers must reject.
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
