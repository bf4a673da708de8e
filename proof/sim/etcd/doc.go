// Package etcd is an etcd of one member, for simulations: the protocol and the rules that package
// etcdstore uses, in memory, by the clock of the bubble. Its clients are the real ones.
//
// It has what may cost a lock: leases that end up to a second late, that begin anew when a server
// starts again, and that are forgotten with everything else; revisions, compaction, and watches that
// go on where a broken connection left them. It has no Raft, no authentication, no old revisions to read, and no
// bound for the size of a request.
package etcd
