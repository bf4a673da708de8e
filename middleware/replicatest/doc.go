// Package replicatest has no code but tests: replicas of a service that share nothing
// but a Redis, behind lockgrpc, lockhttp and lockecho. It is a module of its own:
// otherwise each middleware's go.mod would name a Redis client, and raise its version
// for those who use the middleware with another store.
package replicatest
