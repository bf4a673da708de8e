// Package replicatest has no code but tests: replicas of a service that share nothing but a Redis, behind each of the
// middlewares.
package replicatest
