package send

import "github.com/keyturn/keyturn/store/redisstore/internal/script"

// Request is a call of a script on its way. Its Value and Err are set when the answer is here.
type Request struct {
	script.Call
	Replicas int   // wait until so many replicas have what the call writes
	Wanted   bool  // others wait for what it ends: see [Sender.write]
	Patient  bool  // a sign of life of a waiter: others go first
	Acks     int64 // how many replicas had it in time

	quick bool        // it was sent with a short timeout
	slow  bool        // it must go the ordinary way
	self  [1]*Request // for Alone
	part  *pending    // the pending that counts it while it is under way
}

// Alone returns a list that has only r. It allocates nothing.
func (r *Request) Alone() []*Request {
	r.self[0] = r
	return r.self[:]
}

// shares reports whether a request may leave in a batch. A request that waits for replicas
// needs a connection of its own.
func (r *Request) shares() bool { return r.Replicas == 0 && r.Fits() }

// finished records that a request has its answer.
func (r *Request) finished() {
	if r.part.left.Add(-1) == 0 {
		r.part.done <- struct{}{} // r.part is not used after this: another caller may have it next
	}
}
