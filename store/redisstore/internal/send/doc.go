// Package send is how calls of scripts get to the server and their answers back. A call
// goes on its caller's own goroutine if nothing else is under way, with others in one
// batch if there are others, and in a pipeline if it can't share; on a Cluster each goes
// to its master. The package repeats what the server has refused for now, waits for
// replicas, and keeps the client's map of the slots fresh while servers fail.
//
// It does not know what a call asks for or what its answer means, except that the server
// has not run it.
package send
