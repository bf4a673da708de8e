// Package redistest gives tests Redis servers of their own.
//
// [Start] runs the redis-server or valkey-server on PATH. Without one, the test fails, because
// a skipped test proves nothing. [StartCluster] makes a Cluster, and [StartSentinel] a master
// with replicas behind a Sentinel. internal/servertest runs them, and has a proxy that makes a
// faulty network.
//
// The benchmark in bench/server starts its server here as well. It passes a testing.TB of its
// own, with just the methods that these functions call.
//
// Servers need Unix signals. On other systems there are none.
package redistest
