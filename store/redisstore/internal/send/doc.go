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
//
// # Few requests
//
// A plain request is for one exclusive claim, or for its end, with or without a record. While at most
// six of them are under way to an only server, each is sent on its caller's own goroutine, on a
// connection of the client's pool. A switch to another goroutine and back takes longer than the answer
// of a nearby server. Any other request is sent so only if no second one of its kind is there: its
// script has many functions, which a batch makes once for all. The caller cannot leave before
// go-redis returns, so the request has 50 ms per attempt and 100 ms in all, and then takes the
// ordinary way. A server whose last answer took 25 ms or more is too far away for that.
//
// # Many requests
//
// With a seventh, all that follow gather and leave as batches of at most 128, until there have
// been at most six for 10 ms. Requests that left both ways in turn would be slower than
// either. A caller that finds nobody else still sends its own. No request waits for company: a
// batch leaves at once if few enough are under way, and the requests that come meanwhile leave
// with the next one. Each has its own answer or error. Before a batch leaves, the callers that
// were just answered go on, so that their next requests leave with it. Otherwise its round
// trip would end, and the first of these requests would begin another by itself. Plain
// requests and others gather apart, so that a plain one does not wait for a long script.
//
//   - How many batches at a time depends on how far away the server is. An only server next
//     door gets two batches of plain requests: it works on one while the callers of the other
//     go on. Both are of about one size, because a batch takes half of what waits and is under
//     way together. Otherwise one would have nearly all requests, and server and callers would
//     take turns. A server across a network is idle for most of the round trip, and requests
//     would wait for nothing. So there may be one batch more for each 200 us of the fastest
//     round trip of the last second, 8 in all. Requests that are not plain have one batch
//     instead of two, and so have the masters of a Cluster, which keep each other's callers
//     going: there it counts more that a batch is large. A master also has one caller at a
//     time that sends its own request, not six.
//   - How a batch leaves. Its requests share one script, and a single request has a script of
//     its own, unless it is about a record. On a Cluster a script would mix slots, so batches are writes, one for each
//     master, and each request has its own script. Such a write has as little time as a
//     caller's own request. What the master does not answer in time, or what has moved to
//     another one, takes the ordinary way through the Cluster's client.
//   - A request costs both sides mostly the number of its words. So most requests are two
//     words of the call, with one line for each part of the request.
//   - Plain requests (one exclusive claim on a key that nobody waits for, or its end) share
//     commands. One command looks at the queues of all, one reads and one deletes what ends,
//     and one takes a token for each.
//   - A request that turns out not to be plain takes the slow path in the same call, behind
//     the plain ones. Its side keys follow from the lock's name. This reorders concurrent
//     requests, but no caller has two of them.
//   - A call that has not come back after 50 ms no longer keeps others from leaving.
//
// # Replicas
//
// Grants, renewals and records wait until n replicas have them. Renewals must wait, too:
// otherwise a master that is cut off would go on renewing for its side. A batch ends with one
// WAIT, which covers everything that was written on the connection. A renewal that too few
// replicas confirm is a transient error (N2): the engine tries again until the lease's local
// deadline.
//
// # Failover in a Cluster
//
// go-redis asks for the slots every ten seconds, or when a server says that a slot has moved.
// A dead master says nothing. So after a failure the store makes the client ask every 200 ms,
// until 2 s (and the ReadTimeout) after the last failure. One such question may take
// ReadTimeout, if the client happens to ask the silent server. Therefore a request whose
// master did not answer the last one goes to a replica of that master first. A replica that
// has been promoted runs it; any other answers MOVED and runs nothing.
//
// # Bounds
//
// The client library may not obey a context on a hanging connection. So all other requests run
// on goroutines of the store, and a request that its caller abandoned is undone when it ends.
// The caller's context is checked only when the answer has not come for 10 ms, so a cancel may
// take that long to be noticed. Registering for the end of a context costs more than an
// answer, because each context between it and its root registers the next.
package send
