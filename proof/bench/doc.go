// Bench measures keyturn side by side with other lock libraries for Redis.
//
//	go run ./proof/bench                                    everything, in some 20 minutes
//	go run ./proof/bench -quick                             a look, in less than 50 seconds
//	go run ./proof/bench -scenario hot-4proc,handover       some of it
//	go run ./proof/bench -ladder                            1 to 256 goroutines, a key each
//	go run ./proof/bench -systems keyturn,redislock         some of the systems
//	go run ./proof/bench -sql                               locks in databases, and package fence
//	go run ./proof/bench -ratios                            as Markdown, for docs/benchmarks.md
//	go run ./proof/bench -ladder -plot docs/ladder.svg      also draws the chart of the README
//
// It starts a redis-server (or valkey-server) of its own, on the loopback interface, which ends
// with it, and for -sql a PostgreSQL and a MariaDB. It needs a Unix system.
//
// # How to read the figures
//
// Client and server share this machine's processors, so a library that costs the client more
// leaves the server less, and the other way round. The figures are those of a system under full
// load, not of a server that has a machine to itself. So compare the systems of one run with
// each other, never with figures from elsewhere.
//
// Systems take turns within a scenario. Each row has the median, the least and the most of its
// runs. If these are far apart, something else was going on, and a difference smaller than that
// says nothing.
//
// The systems are keyturn, bsm/redislock, go-redsync/redsync and rueidislock. With -sql they are
// keyturn, with messages of PostgreSQL and without, and locks that a program would write by hand, over
// as many connections. The servers do not wait for the disk, a SQLite file does. Package lock says how
// each is set up.
//
// A pair is a lock and its unlock. "server CPU µs" and "client CPU µs" are the processor time
// of a pair, of user and system together: the servers' as INFO cpu reports it, and that of the
// process that measures. If the keys differ, p50 and p99 are of a pair's time. If all want the
// same key, they are of the wait for the lock. Then read pairs/s together with p99/p50: a
// library that lets the last holder take the key again at once makes many pairs, all of one
// goroutine, while the others wait.
package main
