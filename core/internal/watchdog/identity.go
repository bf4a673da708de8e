package watchdog

import (
	"context"
	"sync"
	"time"
)

// identity watches for another server in the place of the one that leases were granted
// by: after a failover, or a restart without its data. What that one does not know is
// lost at once then, and not at the next renewal, a third of the TTL later.
type identity struct {
	ask func(context.Context) (string, error) // nil: the store can't tell

	mu     sync.Mutex
	known  string // who answered last; it stays while there are no leases
	asking bool
	next   time.Time // when to ask again
}

// due says whether to ask now, which the caller has to do then.
func (id *identity) due(now time.Time, leases int) bool {
	if id.ask == nil || leases == 0 {
		return false
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.asking || now.Before(id.next) {
		return false
	}
	id.asking, id.next = true, now.Add(heartbeat)
	return true
}

// told takes in the answer, and says whether it is another server's than before.
func (id *identity) told(name string, err error) (another bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.asking = false
	if err != nil || name == "" {
		return false
	}
	before := id.known
	id.known = name
	return before != "" && before != name
}

// recognize asks who answers, and has all leases renewed if that is another one.
func (d *Watchdog) recognize(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	if !d.identity.told(d.identity.ask(bounded)) {
		return
	}
	n, now := 0, time.Now()
	for s := range d.locked() {
		s.renewAll(now)
		n += len(s.heap)
	}
	d.poke()
	if n > 0 {
		d.config.Replaced(ctx, n)
	}
}
