// Package sim simulates fleets: several processes, a server and the network between them, in one
// bubble of testing/synctest. There, time moves only when everybody waits. So 20 s of leases take
// about a second, and one event follows the other.
//
// # What is real
//
//   - The engine, the stores with their scripts and decisions, and their clients with their own settings:
//     go-redis, nats.go, database/sql, etcd's clientv3 on gRPC, go-zookeeper. sqlstore has the dialect of SQLite.
//   - The NATS server, in this process (nats.go), with its stream in memory; and SQLite, which carries
//     out the statements of sqlstore (session.go), by the bubble's clock.
//   - The work of the processes, what they write down, and the checks (packages work and history).
//
// # What is simulated
//
//   - The Redis is the one that examples/im embeds: it is written in Go, and has the commands that the
//     scripts use (server.go). Its Lua is another implementation, too (script.go).
//   - The database server around SQLite: sessions, and transactions that end with them (sql.go).
//   - The etcd and the ZooKeeper, each of one server (packages etcd and zookeeper).
//   - The network (network.go, link.go). Each packet has a delay of its own, so connections overtake
//     each other. Faults cut connections between any two bytes, lose answers, lose everything, slow
//     things down, and repeat old requests.
//   - The processes are engines in one program (fleet.go). To kill one is to cut it off for good, and
//     to write down nothing more of it. A process can't be stopped (SIGSTOP): time would stop for
//     nobody else. The histories of package trial do that.
//   - The server's faults: it stops for a while, starts anew with its data and without, forgets data or
//     scripts, has no memory left, a slow disk, or a clock that jumps. It fails over to a copy of what
//     it had some time ago (copy.go).
//
// # Seeds
//
// A seed gives the faults, the delays and what the processes do (chance.go). What depends on Go's
// runtime does not depend on a seed: the order of a map, a select with several ways, a random pause.
// scripts/reproducible runs the tests with a runtime that has no such chance. With it, the same
// seed makes the same history, and one that is wrong shrinks to the few faults that matter
// (shrink.go). Without it, all tests run as well, and a history can't be made again. On a busy
// machine a seed now and then makes another one all the same, above all of natsstore, whose server writes
// files: while one of its goroutines waits for the disk, another one goes on. zkstore never repeats itself:
// it wakes its waiters in the order of a map of channels, which is that of their addresses.
//
//	../scripts/reproducible go test ./sim                                    100 000 operations
//	../scripts/reproducible go test ./sim -operations 1000000 -seed 7        more of them
//	../scripts/reproducible go test ./sim -operations 1 -seed 7 -faults 3,12 one, with two faults only
//
// A mutex that is held during I/O would stop the bubble's time for ever. go-redis does that in one of
// its options, which the fleet switches off. nats.go does it while it makes a connection, which
// therefore takes no time here.
package sim
