package poll

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/console/internal/band"
	"github.com/keyturn/keyturn/console/internal/hot"
	"github.com/keyturn/keyturn/core/driver"
)

// Status says how much of the store is seen, and how well.
type Status struct {
	Tick uint64    // the number of the last publication; 0: there was none yet
	At   time.Time // when that was
	// Keys are held or waited for. Waiters wait, for Contended keys, at the last publication. Records is how many
	// keys were only on record, when all had been seen.
	Keys, Waiters, Contended, Records int
	// SweptAt is when all keys had been seen last; zero: not yet since somebody looks. SweepTook is how long that took.
	SweptAt   time.Time
	SweepTook time.Duration
	// Started is when the poller first looked.
	Started time.Time
	// Err is why the store shows nothing, since ErrSince; nil: it does.
	Err      error
	ErrSince time.Time
}

// Status returns the status.
func (p *Poller) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.seen.Status
	st.Keys = len(p.seen.rows)
	return st
}

// Rows returns up to limit, which is 1 or more, of the rows that pass filter, and how many pass. The key that was waited
// for longest comes first, then the one that was held longest.
func (p *Poller) Rows(filter func(*Row) bool, limit int) (rows []*Row, pass int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var top []ranked
	full := false // the first limit ones of top are those so far, in order
	for _, r := range p.seen.rows {
		if !filter(r) {
			continue
		}
		pass++
		one := newRanked(r)
		if full && before(top[limit-1], one) < 0 {
			continue
		}
		if top = append(top, one); len(top) == 2*limit {
			slices.SortFunc(top, before)
			top, full = top[:limit], true
		}
	}
	slices.SortFunc(top, before)
	for _, one := range top[:min(limit, len(top))] {
		rows = append(rows, one.Row)
	}
	return rows, pass
}

// ranked is a row with what decides its place. The moments do not change while a lease or a wait lasts, so
// the order is the same from one look to the next.
type ranked struct {
	*Row
	waits, held int64 // since when
}

// never is later than every moment.
const never = 1<<63 - 1

func newRanked(r *Row) ranked {
	one := ranked{r, never, never}
	if n, longest := r.Waiters(); n > 0 {
		one.waits = r.at - longest.Milliseconds()
	}
	if d := r.HeldFor(); d > 0 {
		one.held = r.at - d.Milliseconds()
	}
	return one
}

func before(a, b ranked) int {
	return cmp.Or(cmp.Compare(a.waits, b.waits), cmp.Compare(a.held, b.held), strings.Compare(a.Key, b.Key))
}

// Row returns what was seen of a key; nil if it was seen free or not at all. Of a key that is only on record
// there is a row while somebody looks at it.
func (p *Poller) Row(key string) *Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.seen.rows[key]; r != nil {
		return r
	}
	return p.seen.onRecord[key]
}

// Contended returns the keys for which somebody waits.
func (p *Poller) Contended() []driver.LockInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []driver.LockInfo
	for _, r := range p.seen.rows {
		if n, _ := r.Waiters(); n > 0 {
			all = append(all, *r.full)
		}
	}
	slices.SortFunc(all, func(a, b driver.LockInfo) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// Spans returns who had key since from, as far as it is known. Of a key without a history that is its
// present lease.
func (p *Poller) Spans(key string, from time.Time) []band.Span {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.seen.bands[key]; h != nil {
		return h.Spans(from)
	}
	r := p.seen.rows[key]
	if r == nil {
		return nil
	}
	var b band.Band
	b.Add(r.At(), r.Info())
	return b.Spans(from)
}

// Kind is what keys are compared by.
type Kind int

// The kinds: seconds that a key was held, seconds that its waiters waited, together, and how often it was
// seen to have changed hands.
const (
	Held Kind = iota
	Waited
	Changed
	kinds
)

// Hot returns the keys with the greatest amounts since a moment, as hot.Sketch does.
func (p *Poller) Hot(k Kind, since time.Time, n int) []hot.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.hot[k].Top(time.Now(), since, n)
}
