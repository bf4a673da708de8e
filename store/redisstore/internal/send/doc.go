// Package send is how calls of scripts get to the server and their answers back. While few
// are under way, each is sent on its caller's own goroutine. Beyond that, calls that wait
// for the same server leave together: in one script, or, on a Cluster, in one write to the
// master. A call that can't share has a goroutine and a round trip of its own. The package
// repeats what the server has refused for now, waits for replicas, and keeps the client's
// map of the slots fresh while servers fail.
//
// It does not know what a call asks for or what its answer means, except that the server
// has not run it.
package send
