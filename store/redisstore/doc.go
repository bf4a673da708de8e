// Package redisstore keeps leases in Redis or Valkey, 6.2 or later, where every process of a
// fleet sees them.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(client)
//	...
//	eng, err := core.New(store)
//
// # What is in Redis
//
// The lock on "a" is the string "lock:a". It holds "owner:token:..." and expires with the
// lease. If the lease may linger (core.WithLinger), the value ends with the name of the inbox that
// has to know when it is wanted. Any other client that does SET lock:a <uuid> NX PX <ms>, and compares before it
// deletes, excludes keyturn and is excluded by it. Such foreign clients do not wait in the
// queue. While shared leases or permits are in force, the string is a marker, which equals no
// owner and lasts as long as the last of them.
//
// These side keys are in the same slot of a Cluster, each with an expiry of its own:
//
//	{lock:a}:h     sorted set of the holders of shared leases or permits
//	{lock:a}:i     hash of the same holders: token, since when, rule and trace
//	{lock:a}:q     list of the waiting owners, in order of arrival
//	{lock:a}:s     list of the owners that wait for a shared lease
//	{lock:a}:w     hash of all waiters: until when, for what, and their inbox
//	{lock:a}:f     hash of the owners whose lease was taken by force, and why
//	{lock:a}:r     what Once remembers: the owner, fingerprint and result
//	{lock:a}:v     the greatest version that AdvanceVersion was told of
//	{lock:a}:t     the last token given or reserved (Cluster and Ring)
//	{lock:}:token  the same for all locks (one server); it never expires
//
// Every step is one script, so it happens as a whole or not at all.
//
// # Taking turns
//
// At most one goroutine per process and key waits here, or a few if they share the key. The
// engine lines up the others. A release does not free the key. In the same step it passes the
// key to the first waiter that a message can reach: the key is set to the waiter's name for a
// claim time, and a message goes to the inbox of its process. The claim time is half the waiter
// lease ([WithWaiterLease]), so 3 s by default, or the waiter's TTL if that is shorter. One
// release sends one message and wakes one process.
//
// The message grants the lock if it answers the waiter's last question. Otherwise the waiter
// asks. The first renewal, and every further question, extends the claim time to the full TTL.
// A waiter that died unnoticed blocks the others for the claim time at most. A single server
// passes over a killed process as soon as its connection has closed: nobody listens to its
// inbox then.
//
// Messages get lost, and holders die without sending one. So a waiter also asks when the
// holder's time runs out, when its subscription is made anew, and every third of the waiter
// lease, which keeps its place in the queue.
//
// Foreign clients send no messages. A process may be unable to send or receive them, because
// its user has no channels or its connection is dead. While a foreign client has the lock, the
// first waiter polls about every millisecond. Behind a process without messages, and in such a process,
// the first waiter polls every 20 ms, and the others every 100 ms. All poll less often while
// the holder stays the same: internal/inbox/poll.go has the numbers. While anybody waits, a
// process sends a message to itself once a second, and makes its subscription anew if that
// message does not arrive. docs/operations.md, Messages, says what this costs.
//
// Foreign clients would starve beside a queue that is never empty. So once a waiter has seen one, the
// leases of both sides are counted, and the lock is left free for some milliseconds whenever we have had
// as many as they: internal/script/lua/turns.lua.
//
// Shared requests wait in a queue of their own, because they enter together: when an exclusive
// lease ends, or the last permit. When the last shared lease ends, the first of the other
// requests enters. A request that arrives while others wait queues behind them.
//
// # Sets
//
// On one server, a set is one script call. The script takes the claims in key order. If a claim
// is held, the set keeps the claims before it and waits there in the queue. The step that takes
// the last claim gives all of them one token. A waiting set asks again at least every third of
// its TTL, which extends what it holds. If it has died, it blocks those claims for up to its TTL.
//
// On a Cluster or Ring, or with more than 256 claims, the store does the same claim by claim,
// or 256 by 256. The last step is then a round of its own, in which every claim gets the
// highest of the tokens and once more a full TTL. So other processes see these claims held one
// after the other, and a set that is refused has held some of them for a moment.
//
// # Tokens
//
// token = max(last + 1, the server's clock in microseconds), taken in the step that grants:
// take_tokens in internal/script/lua/tokens.lua. The stored counter covers a clock that is set
// back. The clock covers lost data: FLUSHALL, a restart without persistence, or a failover to a
// replica that lags. Only both at once could make a token go back. A grant also reserves tokens
// for hand-offs, which the counter covers from then on: see [driver.Grant].
//
// # What can go wrong
//
// A reply is lost: the client asks again as the same owner, so it gets the same lease. A
// repeated release knows that it was repeated.
//
// The server does not answer: every call returns when its context ends, with an error that
// matches driver.ErrUnavailable. A request that waited in the queue first asks once more, for
// half a second at most. The answer tells contention (a holder is in the way) from an outage
// (the server has fallen silent). What the request may have left behind is undone as soon as
// the server can be reached, or runs out with its TTL. Behind Sentinel, a new connection asks a
// Sentinel first; if that one is silent, the call returns when go-redis gives it up, after its
// ReadTimeout (3 s).
//
// The server forgets, because it was restarted without its data, or because a replica without
// the last writes took over: the key may be granted to another owner while its holder still
// works. The store asks for the server's run ID once a second while there are leases, and all
// leases are renewed when it changes. So the holder learns of its loss about a second after its
// client reaches the new or restarted server. On a Cluster, or if INFO is not permitted, it
// learns of it at its next renewal, at most a third of the TTL later. A resource that must be
// safe compares tokens. With [WithReplicas], grants and renewals wait for replicas. A master
// that is cut off from its replicas then keeps no lease in force beyond its TTL.
//
// The server runs out of memory: acquiring fails with ErrOutOfMemory, while renewing and
// releasing go on. A server that evicts keys to make room may evict locks; the store logs a
// warning if it sees that setting.
//
// # By URL
//
// Importing the package registers these schemes with package storeurl. Close then closes the client,
// too.
//
//	redis://USER:PASSWORD@HOST:6379/0                    one server; rediss:// with TLS
//	redis+unix://:PASSWORD@/run/redis.sock?db=0          a socket
//	redis+sentinel://USER:PASSWORD@a,b,c/0?master_name=M the Sentinels; also sentinel_username, sentinel_password
//	redis+cluster://USER:PASSWORD@a,b,c                  some nodes of a Cluster
//
// rediss+sentinel:// and rediss+cluster:// use TLS. The parameters are prefix, waiter_lease, replicas
// and replica_timeout, as the options of [New], and those of redis.ParseURL, such as pool_size and
// read_timeout.
//
// docs/operations.md has the settings and permissions that the store needs.
package redisstore
