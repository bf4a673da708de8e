// Package zookeeper is a ZooKeeper of one server, for simulations: the protocol and the rules that package
// zkstore uses, in memory, by the clock of the bubble. Its clients are the real ones.
//
// It has what may cost a lock: sessions that expire with their ephemeral nodes, watches that fire once
// and are set again by a new connection, transactions of all or nothing, a new epoch after each start,
// and the refusal of clients that have seen later transactions. It has no followers, no permissions and no quotas.
//
// The protocol is that of ZooKeeper's jute records (zookeeper.jute); the codes are those of its classes
// ZooDefs and KeeperException.
package zookeeper
