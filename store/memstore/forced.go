package memstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// lease names one claim of an acquisition.
type lease struct{ key, owner string }

// note is for the owner of a lease that was taken away.
type note struct {
	reason string
	until  time.Time
}

// notes are the notes of a shard. The zero value has none.
//
// They are kept for [keystate.ReasonKept]. At most maxNotes are kept: the oldest are dropped, and their owners
// learn no reason.
type notes struct {
	byLease map[lease]note
	order   []lease // in the order in which they came, so they end in this order, too
}

const maxNotes = 1024

func (n *notes) add(l lease, reason string, now time.Time) {
	if len(n.order) >= maxNotes {
		n.dropFirst()
	}
	if n.byLease == nil {
		n.byLease = make(map[lease]note)
	}
	n.byLease[l] = note{reason: reason, until: now.Add(keystate.ReasonKept)}
	n.order = append(n.order, l)
}

// find returns the reason why l was taken away.
func (n *notes) find(l lease, now time.Time) (reason string, ok bool) {
	found, ok := n.byLease[l]
	return found.reason, ok && now.Before(found.until)
}

func (n *notes) sweep(now time.Time) {
	for len(n.order) > 0 && !now.Before(n.byLease[n.order[0]].until) {
		n.dropFirst()
	}
}

func (n *notes) dropFirst() {
	delete(n.byLease, n.order[0])
	n.order = n.order[1:]
	if len(n.order) == 0 {
		n.order = nil // this frees its array
	}
}

// outcome is the answer to a step about g that had that error: a loss says whether it was by force.
// It needs the mutexes of g's keys.
func (m *memory) outcome(g *driver.Grant, err error, now time.Time) error {
	if len(g.Claims) == 0 {
		return keystate.Lost(g, "") // no Acquire returned such a grant
	}
	if err == nil {
		return nil
	}
	if loss, ok := err.(*driver.LeaseLostError); ok {
		if reason, forced := m.shard(loss.Key).forced.find(lease{loss.Key, g.Owner}, now); forced {
			loss.Reason, loss.Detail = driver.LossForced, reason
		}
	}
	return err
}

// forgive drops the notes for an owner that was granted what it has lost before. It needs the mutexes of
// the request's keys.
func (m *memory) forgive(r *driver.Request) {
	for _, c := range r.Claims {
		if s := m.shard(c.Key); len(s.forced.byLease) > 0 {
			delete(s.forced.byLease, lease{c.Key, r.Owner})
		}
	}
}
