package send

import "github.com/keyturn/keyturn/store/redisstore/internal/script"

// Request is a call of a script on its way. Its Value and Err are set when it is back.
type Request struct {
	script.Call
	Replicas int   // wait for so many to have what the call writes
	Acks     int64 // how many had it in time

	quick bool        // it was sent with little patience
	slow  bool        // it has to go the ordinary way
	self  [1]*Request // for Alone
	part  *pending    // of what, while under way
}

// Alone is the list of nothing but r.
func (r *Request) Alone() []*Request {
	r.self[0] = r
	return r.self[:]
}

// shares says whether a request may leave in a group. One that waits for replicas keeps
// its connection.
func (r *Request) shares() bool { return r.Replicas == 0 && r.Fits() }

// finished notes that a request is back.
func (r *Request) finished() {
	if r.part.left.Add(-1) == 0 {
		r.part.done <- struct{}{} // the last look at it: another may have it next
	}
}
