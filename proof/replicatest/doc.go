// Package replicatest has no code but tests: replicas of a service that share nothing
// but a Redis, an etcd, a ZooKeeper or a PostgreSQL, behind each of the middlewares.
package replicatest
