// Package zktest gives tests a ZooKeeper of their own: one server, or an ensemble of three.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Main(m)) }
//
//	func TestX(t *testing.T) {
//		addr := zktest.Shared(t).Addr()
//		...
//
// [Shared] starts one server per test binary, when a test first asks for it. Tests keep apart by
// roots of their own. A test that kills or pauses its server, or wants other settings, takes one for
// itself: [Start]. [StartEnsemble] runs three servers, with a network between them that fails on
// demand. A [Relay] stands between a client and a server.
//
// The servers are Debian's: the package zookeeper, whose jars are run with java. They listen on the
// loopback interface, and don't wait for the disk: a process that is killed loses nothing that the
// kernel has. A tick takes 100 ms, so a session's timeout is between 200 ms and 2 s (on the shared server: MaxSession).
//
// A server ends with its test or with the test binary, even if that is killed.
package zktest
