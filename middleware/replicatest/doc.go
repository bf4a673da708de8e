// Package replicatest has no code but tests: replicas of a service that share nothing
// but a Redis, an etcd, a ZooKeeper or a PostgreSQL, behind each of the middlewares. It is a module of its own:
// otherwise each middleware's go.mod would name their clients, and raise their versions
// for those who use the middleware with another store.
package replicatest
