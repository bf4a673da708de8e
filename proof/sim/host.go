package sim

import (
	"net"
	"sync"
	"time"
)

// host is the machine of a server, as the network sees it.
type host struct {
	program

	mu     sync.Mutex
	down   bool          // nobody can connect
	frozen time.Time     // until then it does nothing
	disk   time.Duration // each answer takes so much longer
}

// program is what runs on a host.
type program interface {
	serve(net.Conn)
	tick()              // tells it what time it is, before it does something
	restart()           // it comes back
	writes([]byte) bool // reports whether a packet has a request that is worth repeating
}

// simple is embedded in programs that have the bubble's time, that come back with their data, and whose packets are
// parts of a stream, so that none is repeated.
type simple struct{}

func (simple) tick()              {}
func (simple) restart()           {}
func (simple) writes([]byte) bool { return false }

// set changes the state of the host, or of its server.
func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// pause is how long a request waits until the server goes on.
func (h *host) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(time.Until(h.frozen), 0)
}

// lag is how much later than usual an answer comes.
func (h *host) lag() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.disk
}

func (h *host) refuses() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// freeze has a minority of hosts, or the only one, do nothing for a while.
func freeze(hit []*host, lasts time.Duration) {
	for _, h := range hit {
		h.set(func() { h.frozen = time.Now().Add(lasts) })
	}
	time.Sleep(lasts)
}

// slowDisk has hosts answer late for a while.
func slowDisk(hit []*host, late, lasts time.Duration) {
	for _, h := range hit {
		h.set(func() { h.disk = late })
	}
	time.Sleep(lasts)
	for _, h := range hit {
		h.set(func() { h.disk = 0 })
	}
}
