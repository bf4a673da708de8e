// Package redlock keeps exclusive leases on several independent Redis servers, of which a majority
// decides. Use it only if nobody can give you one Redis with replicas: package redisstore over one
// good server, with a resource that compares fencing tokens, is simpler, faster, and safer.
//
//	store, err := redlock.New([]*redis.Client{a, b, c, d, e})
//	...
//	eng, err := core.New(store)
//
// The nodes know nothing of each other: no replication, no Cluster, each with a disk and a clock of
// its own. A client that fails over through Sentinel may be a node. Servers are Redis or Valkey, 6.2
// or later. New nodes give no vote before [WithMaxTTL] is over, or [Store.Init] has marked them.
//
// # A grant
//
// The store asks all nodes at once for their votes. Each node votes for one owner of a key at a
// time, for the lease's TTL by its own clock. A lease is granted when a quorum has voted for its
// owner; it then lasts for its TTL from before the request was sent. A request that gets no quorum
// takes its votes back from all nodes, also from those that did not answer. It tries again after a
// random pause.
//
// The fencing token is greater than that of every earlier lease of the key. The request proposes a
// token: the middle one of the nodes' clocks. A node that has given that token before answers with a
// greater one. If a quorum has the same token, the lease has it after one round trip. Otherwise the
// greatest is written to the nodes in a second round trip. Any later quorum has a node in common
// with this one, so its token is greater. A clock that is wrong on a minority of nodes does not
// change the tokens.
//
// A renewal counts if a quorum has renewed. If so many nodes have lost the lease that there can be
// no quorum, it is lost. A renewal never gives a vote. So a lease that outlives restarts without data
// of more than a minority of the nodes, one after the other, is lost.
//
// # Waiting
//
// Waiters for a key stand in line at one node, its gate. A release calls the first of them that
// listens. This is a hint: no wait rests on it, and every waiter also asks by itself twice a second,
// and when the holder's lease ends. Other processes ask the gate first while a key is contended.
// There is no order across processes, and nobody starves.
//
// # A node that forgets
//
// A node that is started anew may have forgotten the votes that it gave. It could then help a second
// owner to a quorum. So it abstains until every such lease is over: for [WithMaxTTL], by its own
// clock. The script that gives a vote decides this. It compares the run id of the server's process
// with a mark, "{lock:}:born", that says since when that process votes. Renewals and releases go
// on. With [WithPersistent] nothing is compared.
//
// # What can go wrong
//
// The clock of a node jumps: it may let its vote end too soon. Quorums of 3 of 5 meet in a single
// node, so two owners may then have a key. Quorums of 4 of 5 meet in three nodes ([WithQuorum]).
//
// A node is restored from a backup, or emptied without a restart, or its mark is copied: two owners
// may have a key. FLUSHALL takes the mark, too, so the node abstains.
//
// All data is lost: the nodes abstain, and tokens still rise if the nodes' clocks agree within the
// longest TTL.
//
// A holder is paused for longer than its TTL: no lock helps. The resource must compare tokens.
//
// # What is on a node
//
// The lock on "a" is the string "lock:a". It expires with the lease. A foreign client that uses SET
// lock:a <value> NX PX <ms> on the same nodes, such as another Redlock library, excludes this
// package and is excluded by it. The side keys are
//
//	{lock:a}:t     the last token given or reserved; it expires an hour after the last grant
//	{lock:a}:line  the waiters, on the key's gate
//	{lock:a}:turn  the waiter that was called last, for 100 ms
//	{lock:a}:f     the owners whose lease was taken by force, and why, for an hour
//	{lock:}:born   since when this server votes
//
// docs/operations.md says how to run the nodes, and docs/guarantees.md what you may rely on.
//
// # By URL
//
// Importing the package registers redlock:// and, with TLS, redlocks:// with package storeurl. Close
// then closes the clients, too. All nodes have the same user, password and database.
//
//	redlock://USER:PASSWORD@a,b,c,d,e/0?quorum=4
//
// The parameters are prefix, quorum, max_ttl, node_timeout and persistent, as the options of [New],
// and those of redis.ParseURL. Prepare of storeurl calls [Store.Init].
package redlock
