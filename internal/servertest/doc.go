// Package servertest gives tests the programs that serve them, and a network between the tests
// and the servers that can fail.
//
// [Start] runs any server program on a free port of the loopback interface, and ends it with the
// test. The [Server] can be killed, restarted and paused. [NewProxy] puts a faulty connection in
// front of any TCP server. A [Binary] has servers that tests share. internal/redistest, internal/sqltest,
// internal/etcdtest and internal/zktest say which programs to run.
//
// Servers need Unix signals. On other systems only the proxy is available.
package servertest
