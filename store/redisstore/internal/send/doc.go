// Package send sends calls of scripts to the server and brings their answers back. It has three
// ways:
//
//   - While few others are under way, a goroutine sends its own.
//   - Otherwise calls that wait for the same server leave together as a batch. They share a
//     script, or on a Cluster a write.
//   - A call that can't share has a goroutine and a round trip of its own.
//
// The package repeats calls that the server has refused for now. It waits for replicas. It
// keeps the client's map of the slots fresh while servers fail.
//
// The package does not know what a call asks for or what its answer means. It only recognises
// the answers of a server that has not run the call, such as MOVED and LOADING.
package send
