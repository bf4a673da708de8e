// Package etcdstore keeps leases in etcd, where every process that uses the cluster sees them. The
// locks survive the loss of a minority of the servers without help.
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"etcd1:2379", "etcd2:2379", "etcd3:2379"},
//		DialTimeout:          5 * time.Second,
//		DialKeepAliveTime:    10 * time.Second, // otherwise nobody notices a connection that has fallen silent
//		DialKeepAliveTimeout: 3 * time.Second,
//	})
//	...
//	store, err := etcdstore.New(ctx, client)
//	...
//	eng, err := core.New(store)
//
// Importing the package registers the schemes etcd and etcds (with TLS) with package storeurl:
//
//	etcd://USER:PASSWORD@etcd1,etcd2:2379?prefix=keyturn/&waiter_lease=6s&keep_alive=10s
//
// prefix is [WithPrefix], waiter_lease is [WithWaiterLease], and keep_alive is the client's
// DialKeepAliveTime.
//
// # TTLs
//
// TTLs are whole seconds. The shortest is one and a half times the election timeout of the servers,
// rounded up: 2 s by default. The engine rounds other TTLs up, and refuses shorter ones. etcd ends a
// lease up to a second late, and begins its time anew when a leader is elected. So a key whose holder
// died is free within the TTL and 1.5 s, and up to a TTL later if there was an election.
//
// # What is in etcd
//
// A lock has these keys, behind [WithPrefix]:
//
//	{user:42}/lock            the last token, and what else decisions depend on; for half a day at least after the last use
//	{user:42}/member/<owner>  a holder or a waiter; etcd deletes it when its lease has run out
//	{user:42}/record          what Once remembers
//	{user:42}/version         what AdvanceVersion remembers
//	{user:42}/forced/<owner>  why a lease was taken by force, for an hour
//	inbox/<process>/<owner>   a message that this lease is wanted, for a minute
//
// An owner has the lock if, and only if, its member key exists and has a token.
//
// # A request
//
// A decision reads the lock and its members, decides in Go (internal/keystate), and writes what has
// changed in one transaction. The transaction compares that nobody else has decided meanwhile, that
// nobody has joined the queue, and that each waiter which gets the lock is still there. So a waiter
// whose lease has run out never gets a lock, and none stays behind it.
//
// A store remembers the locks that it has written or read, and begins with that instead of reading. So an
// acquisition of a free lock and its release cost one transaction each. If others are quicker several
// times, a request joins the queue, where everybody who decides finds it and lets it in; and a release
// ends its lease without a decision, as if the lease had run out.
//
// Each acquisition has a lease of etcd of its own, so one that is not renewed ends alone. Leases of
// released locks are used again for a quarter of their TTL.
//
// # Renewals
//
// All keep-alives of a process go over one stream. Then one read for each 100 leases shows that the
// leases still belong to their owners. It also shows that the leader which kept them alive was the
// leader afterwards: a leader that was replaced without noticing goes on answering keep-alives, but it
// answers no reads, and the answers of its successor have another term of raft.
//
// # Waiting
//
// A waiter watches its own key, and that of the waiter in front of it; the first one watches the
// holders. So a release wakes one waiter. A release writes the grant of the next waiter in the same
// transaction, and that waiter needs no further request. A watch begins with the present revision and
// is followed by a read: etcd serves watches that begin in the past only ten times a second. No wait
// rests on a watch alone: each waiter asks every third of its waiter lease, with which it keeps its
// place ([WithWaiterLease]).
//
// # What it costs
//
//	acquire a new key, or a free lock that this process was the last to use   1 transaction
//	its release, if nobody has joined the queue                               1 transaction
//	the same if another process has used the lock meanwhile                   2 transactions
//	a lease                                                                   1 write each quarter of the TTL
//	a renewal of n leases                                                     n keep-alives on one stream, 2 reads for each 100
//	the first renewal after a wait, if the TTL is above the waiter lease      2 writes
//	a request that has to wait                                                1 read, 1 write, 2 or 3 watches, 1 or 2 reads;
//	                                                                          1 keep-alive and 1 read each third of the waiter lease
//	a hand-over to another process                                            1 or 2 transactions, 1 event to the waiter
//	a set of more than 16 keys                                                1 read and 1 write for each 16, twice
//	a record of Once                                                          the transaction of the release
//	a process with leases that linger (core.WithLinger)                       1 watch, 1 message per second
//	a request that meets such a lease                                         1 write more
//
// A pair on a key of its own costs one write more than with etcd's concurrency, because the last token
// outlives its holder. Otherwise tokens could fall after a crash.
//
// # What can go wrong
//
// etcd does not answer, or has no leader: every call returns when its context ends, with an error that
// matches driver.ErrUnavailable. What a request may have left behind is undone as soon as etcd answers,
// by the end of its lease: a copy of the request that arrives later names a lease that does not exist,
// and fails.
//
// etcd is out of space (the alarm NOSPACE): releases work, and nothing else. The errors match
// driver.ErrUnavailable.
//
// A backup is restored: locks are as they were then, and two owners may hold a key until the first
// one's next renewal. Tokens still increase, because they follow the clock of the process that grants.
// A resource that must be safe compares them. See docs/operations-etcd.md.
package etcdstore
