// Package redistest gives tests Redis servers of their own.
//
// [Start] runs the redis-server or valkey-server on PATH. Without one, the test fails, because
// a skipped test proves nothing. [StartCluster] makes a Cluster, and [StartSentinel] a master
// with replicas behind a Sentinel. internal/servertest runs them, and has a proxy that makes a
// faulty network.
//
// Programs that are no tests start servers here as well, with a [Run] for their testing.TB.
//
// Servers need Unix signals. On other systems there are none.
package redistest
