package core

import (
	"container/heap"
	"context"
	"log/slog"
	"time"
)

// identity watches for another server in the place of the one that leases were granted
// by: after a failover, or a restart without its data. What that one does not know is
// lost at once then, and not at the next renewal, a third of the TTL later. Guarded by
// the watchdog's mutex.
type identity struct {
	ask    func(context.Context) (string, error) // nil: the store can't tell
	log    *logger
	known  string // who answered last; it stays while there are no leases
	asking bool
	next   time.Time // when to ask again
}

// due says whether to ask now, which the caller has to do then.
func (id *identity) due(now time.Time, leases int) bool {
	if id.ask == nil || id.asking || leases == 0 || now.Before(id.next) {
		return false
	}
	id.asking, id.next = true, now.Add(heartbeat)
	return true
}

// recognize asks who answers, and has all leases renewed if that is another one.
func (w *watchdog) recognize(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	name, err := w.identity.ask(bounded)
	if n := w.recognized(name, err); n > 0 {
		w.identity.log.write(ctx, slog.LevelWarn, "keyturn: another server answers, all leases are renewed", "leases", n)
	}
}

// recognized takes in the answer, and says how many leases are to be renewed for it.
func (w *watchdog) recognized(name string, err error) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := &w.identity
	id.asking = false
	if err != nil || name == "" {
		return 0
	}
	before := id.known
	id.known = name
	if before == "" || before == name {
		return 0
	}
	now := time.Now()
	for _, l := range w.heap {
		l.deadline.renewAt = now
		l.deadline.schedule()
	}
	heap.Init(&w.heap)
	w.poke()
	return len(w.heap)
}
