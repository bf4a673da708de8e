package node

import (
	"sync/atomic"
	"time"
)

// clock estimates a server's clock. The estimate is behind by the time that the last answer took to
// come, and by what the server's clock was set forward since.
type clock struct {
	last atomic.Pointer[reading]
}

type reading struct {
	server int64 // µs
	at     time.Time
}

func (c *clock) set(server int64) { c.last.Store(&reading{server, time.Now()}) }

func (c *clock) now() (int64, bool) {
	r := c.last.Load()
	if r == nil {
		return 0, false
	}
	return r.server + time.Since(r.at).Microseconds(), true
}
