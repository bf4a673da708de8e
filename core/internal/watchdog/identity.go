package watchdog

import (
	"context"
	"sync"
	"time"
)

// identity notices that another server answers instead of the one that granted the leases:
// after a failover, or a restart without data. Leases that the new server does not know are
// then lost at once, and not at the next renewal, a third of the TTL later.
type identity struct {
	mu     sync.Mutex
	known  string // the server that answered last; kept while there are no leases
	unsure bool   // there are leases from before it was known
	asking bool
	next   time.Time // when to ask again
}

// due reports whether to ask now. If so, its caller must ask.
func (id *identity) due(now time.Time, leases int) bool {
	if leases == 0 {
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

// told notes the answer. doubtful: another server may have granted the leases. replaced: another one has
// answered before.
func (id *identity) told(name string, err error) (doubtful, replaced bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.asking = false
	if err != nil || name == "" {
		id.unsure = id.known == ""
		return false, false
	}
	replaced = id.known != "" && id.known != name
	doubtful = replaced || id.unsure
	id.known, id.unsure = name, false
	return doubtful, replaced
}

// recognize asks which server answers. If the leases may be another one's, all are renewed.
func (d *Watchdog) recognize(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	doubtful, replaced := d.identity.told(d.config.Identity(bounded))
	if !doubtful {
		return
	}
	n, now := 0, d.clock.moment(time.Now())
	for s := range d.locked() {
		s.renewAll(now)
		n += len(s.heap)
	}
	d.poke()
	if n > 0 && replaced {
		d.config.Replaced(ctx, n)
	}
}
