// Package replicatest has no code but tests: replicas of a service that share nothing
// but a Redis, an etcd or a ZooKeeper, behind lockgrpc, lockhttp, lockecho, lockasynq and lockfunc. It is a module of its own:
// otherwise each middleware's go.mod would name their clients, and raise their versions
// for those who use the middleware with another store.
package replicatest
