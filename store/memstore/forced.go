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
	keystate.Forced
	until time.Time
}

// notes are the notes of a shard.
//
// They are kept for [keystate.ReasonKept]. At most maxNotes are kept: the oldest are dropped, and their owners
// learn no reason.
type notes struct {
	byLease map[lease]note
	order   []lease // in the order in which they came, so they end in this order, too
}

const maxNotes = 1024

func (n *notes) add(f keystate.Forced, now time.Time) {
	if len(n.order) >= maxNotes {
		n.dropFirst()
	}
	l := lease{f.Key, f.Owner}
	n.byLease[l] = note{f, now.Add(keystate.ReasonKept)}
	n.order = append(n.order, l)
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
		if why := m.shard(loss.Key).forced.byLease[lease{loss.Key, g.Owner}]; now.Before(why.until) {
			keystate.Explain(loss, why.Token, why.Reason)
		}
	}
	return err
}
