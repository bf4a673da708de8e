// Command proof checks the stores, and the engine on top of them, against the promises of
// [driver.Store] and of docs/guarantees.md. Its methods do not depend on somebody having thought of
// the case. docs/proof.md says what was run and what was found.
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
// nothing run out, and make waiters poll so seldom that a missing message shows. sqlstore runs on
// PostgreSQL, with messages and without, on MariaDB and on SQLite. etcdstore runs on etcd.
//
// # Histories
//
// Several processes with engines of their own share a real Redis: one server, a master with two
// replicas behind a Sentinel, or a Cluster of three masters and three replicas; or five servers, of which
// store/redlock asks for a quorum; a PostgreSQL, an etcd, or a ZooKeeper. They take and
// release locks of all modes, extend and downgrade them, take keys from each other by force, change
// registers under them, and run functions once (package work). Meanwhile faults strike: processes,
// servers and the network fail in ways and at times that a seed chooses (package trial).
//
// Each process writes down what it was granted and until when it was entitled to act, on the one
// clock that they share. Package history then looks for:
//
//   - sections that overlap but must not;
//   - tokens out of order, and tokens that come twice;
//   - leases that were renewed or released after somebody had taken them away;
//   - for a key that is claimed only exclusively: whether an order of all operations makes it one
//     lock with rising tokens ([linearizability], by github.com/anishathalye/porcupine);
//   - increments of registers that are lost, by the same method;
//   - functions of Once that ran again although they were on record;
//   - errors that a caller could not tell apart, keys that are left behind, and times without a
//     grant although the server served.
//
// What the guarantees admit for a fault is not wrong: after a failover without WithReplicas, for
// example, two may hold a key until the old holder's next renewal. Everything else is. A history also
// fails if too little happened in it, or if the outcome of too many operations is unknown.
//
// Package sim has whole fleets in a bubble: the same work on the real engine, store and scripts, with a
// simulated server and network. A seed makes the same history again there. Its tests also have stores that are wrong,
// which must be found.
//
// The proof is about the run that was made. A section counts only as far as it is certain: it begins when the
// answer was there. It ends at the first of these moments: when the release began, at the holder's own
// deadline, at the last moment when its process was known to live, or when it may have been taken
// away. So a complaint of a checker is always justified, and a shorter overlap is not seen. A lease
// that is being extended is certain until the end of the shorter of both terms. One that is being
// downgraded counts as shared from the beginning of the downgrade, and is two sections for the
// checker. Hand-offs within a process are included, also of leases that every other process keeps
// while nobody uses them (core.WithLinger): they are sections with tokens of their own, and a lease
// that is handed on after it was taken away does not count. An operation whose answer is missing may
// take effect at any later time.
//
// Not included are leases that are carried to another process.
//
// # Controls
//
// A checker that sees nothing proves nothing. So tests break stores, and make up histories,
// that the checkers must reject. Histories under settings that the docs warn of must show what is
// lost, and so must those of other lock libraries. scripts/mutants plants bugs in the engine, the
// scripts and the store, and counts the histories until they are found.
//
// # Running it
//
// It needs redis-server, PostgreSQL, MariaDB, etcd, ZooKeeper, and a Unix system.
//
//	go test -race ./proof                        as part of make test-all
//	go test ./proof -rapid.checks=10000          more programs
//	go test ./proof -rapid.seed=...              one that failed, again
//	go run ./proof -for 10m -topology sentinel -faults sentinel,stop -seed 7
//
// The seed decides which faults strike, in which order and for how long. The processes and the
// servers have their own ways, so the same seed does not make the same history.
//
// [linearizability]: https://cs.brown.edu/~mph/HerlihyW90/p463-herlihy.pdf
package main
