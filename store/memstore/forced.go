package memstore

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
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
// Owners learn of a forced release at their next renewal, within a third of their TTL. An owner
// that has not asked in noteTerm is gone. At most maxNotes are kept: the oldest are dropped,
// and their owners learn no reason.
type notes struct {
	byLease map[lease]note
	order   []lease // in the order in which they came, so they end in this order, too
}

const (
	noteTerm = time.Hour
	maxNotes = 1024
)

func (n *notes) add(l lease, reason string, now time.Time) {
	if len(n.order) >= maxNotes {
		n.dropFirst()
	}
	if n.byLease == nil {
		n.byLease = make(map[lease]note)
	}
	n.byLease[l] = note{reason: reason, until: now.Add(noteTerm)}
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

// forceAll takes key from those holders that only names, or from all without only. lender is the
// message to the engine of such a lease that lingers. It locks.
func (s *shard) forceAll(key, reason string, only []driver.Holder) (gone []driver.Holder, lender want, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.live(key, now)
	if e == nil {
		return nil, want{}, nil
	}
	gone = driver.Named(e.show(now), only)
	if len(gone) == 0 {
		return nil, want{}, e.held(now)
	}
	lender = e.want()
	s.force(e, gone, reason, now)
	return gone, lender, nil
}

// force takes the leases of those away that e shows as its holders.
func (s *shard) force(e *entry, from []driver.Holder, reason string, now time.Time) {
	for _, f := range from {
		s.forced.add(lease{e.key, f.Owner}, reason, now)
		h := e.find(f.Owner)
		e.remove(h)
		s.forget(h)
	}
	s.serve(e, now)
}
