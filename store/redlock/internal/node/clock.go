package node

import "time"

// reading is what a server's clock showed, and when that was known. An estimate by it is behind by the time
// that the answer took to come, and by what the server's clock was set forward since.
type reading struct {
	server int64 // µs
	at     time.Time
}

// Tell learns the server's clock from an answer.
func (n *Node) Tell(now int64) { n.clock.Store(&reading{now, time.Now()}) }

// Clock estimates the server's clock in µs; false: it is not known yet.
func (n *Node) Clock() (int64, bool) {
	r := n.clock.Load()
	if r == nil {
		return 0, false
	}
	return r.server + time.Since(r.at).Microseconds(), true
}
