// Package embedtest tests store/etcdstore with a newer client and server than its own module does. The
// server is in the test's process.
package embedtest
