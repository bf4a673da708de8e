// Package redistest gives tests a Redis server of their own, and a network
// that can fail between them and it.
//
// Start runs the redis-server or valkey-server found on PATH; a test that needs
// one fails without it, as a skipped test proves nothing. StartCluster makes a
// Cluster of several, StartSentinel a master with replicas behind a Sentinel. NewProxy puts a faulty connection in front of any TCP
// server.
//
// The benchmark in bench/server starts its server here as well, with a
// testing.TB that has just what Start and its like call.
//
// Servers need Unix signals; on other systems only the proxy is there.
package redistest
