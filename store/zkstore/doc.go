// Package zkstore keeps leases in ZooKeeper, which goes on serving them while a majority of its
// servers is up, and loses nothing that it has answered.
//
//	store, err := zkstore.New(ctx, []string{"a:2181", "b:2181", "c:2181"})
//	...
//	eng, err := core.New(store)
//
// # A lease is not a session
//
// In most recipes a lock ends with the session of its holder. Then one timeout, of seconds, holds for
// all locks, and a short fault of the network ends all locks of a process at once. Here the session
// ends only what needs no guarantee: the places of a dead process in queues. A lease is a permanent
// node. The leader stamps each write with its clock, and a lease is in force until its TTL has passed
// since the last write of its node, by the leader's clock. A process that loses its session keeps its
// leases.
//
// The clocks of the processes don't matter. Each store derives a lower bound of the leader's clock
// from the stamps that it has seen, and before it ends another owner's lease, it writes to a node of
// its own for a fresh stamp. Stamps of two leaders are not compared: after a change of the leader, a
// lease that was not renewed yet lasts for its TTL from the new leader's first stamp. So a dead holder
// blocks its key for up to a second TTL then.
//
// # What is in ZooKeeper
//
// Below the root ([WithRoot]) are 4096 buckets, by a hash of the key, and in them a node for each key:
//
//	/keyturn/b/<bucket>/<key>                   last token and mode; its version is the lock's
//	/keyturn/b/<bucket>/<key>/h-<owner>         a lease
//	/keyturn/b/<bucket>/<key>/w-<owner>-x-<nr>  a waiter: ephemeral, with a number from the server
//	/keyturn/b/<bucket>/<key>/r, v, f-<owner>   the record of Once, the version of AdvanceVersion, why a lease was forced
//	/keyturn/clock                              written for a stamp
//	/keyturn/i/<process>                        where a process is told that its leases are wanted
//
// <owner> is a hash of the lease's owner, so a process that did not get the answer to its request
// finds out what became of it. The nodes hold JSON. What has been over for a day is deleted.
//
// # A request
//
// The store reads the lock, decides in Go who gets it (internal/keystate), and writes the decision
// with one multi-operation. It is refused if anybody else has decided about the same lock meanwhile,
// and is then made anew. Arrivals, renewals, the ends of waits, and those of leases that let nobody in are no
// decisions, and fail nobody's.
// A set of claims is one multi-operation, too, so its size is bounded by the servers' jute.maxbuffer
// ([WithBuffer]): some 500 claims.
//
// Leases are renewed in multi-operations of 100.
//
// # Waiting
//
// A waiter has the server tell it when its node goes, which is how it learns that it was granted the
// lock, and when the waiter in front goes. Only the first waiters also look at the holder. A waiter
// asks by itself, too, every third of the session's timeout.
//
// A release grants the lock to the next waiter. If that process has died unnoticed, the lock is kept
// for it for half the session's timeout ([WithSession]), 5 s by default, or for its TTL if that is
// shorter.
//
// # What it costs
//
// A process that waits for nothing sends only the renewals of its leases and the client's pings. Reads
// are counted one after the other; a write waits for the disks of a majority.
//
//	                                                                            reads  writes
//	acquire a free exclusive lock that this process released in the last 10 s      0      1
//	acquire another free lock                                                      1      1
//	release an exclusive lease that was granted while nobody waited                0      1
//	another release                                                                2      1
//	renew up to 100 exclusive leases that were granted while nobody waited         0      1
//	renew up to 100 others (100 reads at a time)                                   1      1
//	join the queue                                                                 5      1
//	hand over to another process: the releaser; the waiter                      2; 1      1; 1 soon after
//	end a dead holder's lease                                                      2      2
//	wait, each third of the session                                                3
//	meet a lease that lingers (core.WithLinger); be told of it                  1; 2   1; 1
//
// A waiting process has up to three watches for each key, and a decision wakes two of them at most.
//
// # What can go wrong
//
// The servers do not answer: every call returns when its context ends, with an error that matches
// driver.ErrUnavailable. Without a session it returns after 3 s at the latest, and a request that
// waits for a lock after the session's timeout. What the request may have done is undone afterwards.
//
// The session expires: the waiters of the process join their queues anew, at the end. Leases stay.
//
// A server closes connections of clients that have seen later transactions than its own, as after the
// restore of a backup. A store that has had no session for as long as the session's timeout begins a
// new one, as a client that has seen nothing.
//
// The leader's clock is set forward: leases end early, and a resource that must be safe compares
// tokens. The clock of another server or process has no effect.
//
// # By URL
//
// Importing the package registers zk:// and, with TLS, zks:// with package storeurl. The path is the
// root; without one it is [DefaultRoot]. A user and a password are those of the scheme digest.
//
//	zk://USER:PASSWORD@a,b:2181,c/keyturn?session=10s
//
// The parameters are session and buffer, as the options of [New].
package zkstore
