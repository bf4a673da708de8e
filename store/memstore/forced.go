package memstore

import (
	"time"
)

// lease names one claim of an acquisition.
type lease struct{ key, owner string }

// note is what the owner of a lease that was taken away is told.
type note struct {
	reason string
	until  time.Time
}

// Owners learn of it with their next renewal, within a third of their TTL; who
// has not asked in noteTerm is not there any more. A shard keeps no more than
// maxNotes: the oldest go, and their owners learn no reason.
const (
	noteTerm = time.Hour
	maxNotes = 128
)

// force takes all leases on e away.
func (s *shard) force(e *entry, reason string, now time.Time) {
	for _, h := range e.holders {
		if len(s.forced) >= maxNotes {
			s.makeRoom()
		}
		s.forced[lease{e.key, h.owner}] = note{reason: reason, until: now.Add(noteTerm)}
		s.forget(h)
	}
	clear(e.holders)
	e.holders, e.index = e.holders[:0], nil
	s.serve(e, now)
}

func (s *shard) makeRoom() {
	var oldest lease
	var until time.Time
	for l, n := range s.forced {
		if until.IsZero() || n.until.Before(until) {
			oldest, until = l, n.until
		}
	}
	delete(s.forced, oldest)
}

func (s *shard) sweepForced(now time.Time) {
	for l, n := range s.forced {
		if !now.Before(n.until) {
			delete(s.forced, l)
		}
	}
}
