// Package servertest gives tests the programs that serve them, and a network between the tests
// and the servers that can fail.
//
// [Start] runs any server program on a free port of the loopback interface, and ends it with the
// test. The [Server] can be killed, restarted and paused. [NewProxy] puts a faulty connection in
// front of any TCP server. internal/redistest, internal/sqltest and internal/etcdtest say which
// programs to run.
//
// Servers need Unix signals. On other systems only the proxy is available.
package servertest
