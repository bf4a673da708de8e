package sqlstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// micros is a time by the database's clock, or a duration, in microseconds.
type micros = int64

var toMicros, fromMicros = keystate.ToMicros, keystate.FromMicros

// endOf is a moment at which something ends. It must not end earlier than was promised.
func endOf(t time.Time) micros { return t.Add(time.Microsecond - 1).UnixMicro() }

// The flags of a row.
const (
	partial  = 1 << iota // a part of a set that waits for the rest
	released             // by its owner; it stays for a while (R6)
	once                 // a waiter that also takes a record
	lingerer             // a waiter whose lease may linger
)

// row is what the database has of a holder or a waiter.
type row struct {
	owner   string
	waits   bool
	mode    driver.Mode
	permits int
	nr      uint64 // order of arrival
	inbox   string // where messages reach the process of a waiter, or of a lease that lingers; "": nowhere

	token    uint64
	reserved uint64 // the tokens after it that are its own; of a waiter, as many as it wants
	until    micros
	since    micros
	ttl      micros
	flags    int
	rule     string
	trace    string
}

func (r *row) is(flag int) bool { return r.flags&flag != 0 }

func (r *row) set(flag int, is bool) {
	if is {
		r.flags |= flag
	}
}

// fill makes m the member that the row stands for.
func (r *row) fill(m *keystate.Member) {
	*m = keystate.Member{
		Owner: r.owner, Waits: r.waits, Mode: r.mode, Permits: r.permits, Arrived: r.nr, Token: r.token, Reserved: r.reserved,
		Since: time.UnixMicro(r.since), Until: time.UnixMicro(r.until), TTL: fromMicros(r.ttl),
		Partial: r.is(partial), Released: r.is(released), Once: r.is(once), Inbox: r.inbox, Rule: r.rule, Trace: r.trace,
	}
	m.Linger = r.inbox != ""
	if r.waits {
		m.Linger = r.is(lingerer)
	}
}

// rowOf is the row of a member as it should be.
func rowOf(m *keystate.Member) row {
	r := row{
		owner: m.Owner, waits: m.Waits, mode: m.Mode, permits: m.Permits, nr: m.Arrived, token: m.Token, reserved: m.Reserved,
		since: m.Since.UnixMicro(), until: endOf(m.Until), ttl: toMicros(m.TTL), rule: m.Rule, trace: m.Trace,
	}
	if m.Waits || m.Lingers() {
		r.inbox = m.Inbox
	}
	r.set(partial, m.Partial)
	r.set(released, m.Released)
	r.set(once, m.Once)
	r.set(lingerer, m.Waits && m.Linger)
	return r
}

// lock is a key with its rows, as they were read.
type lock struct {
	*keystate.Key
	exists bool // it has a row of its own
	was    lockRow
	all    []*row           // in the table of members, each the Ref of its member
	record *keystate.Record // nil: none was in force. Only its end is known, unless the transaction reads records
}

// lockRow is a lock's own row. An exclusive holder stands in it, so that one statement can take
// and release a key that nobody waits for. Otherwise holder.until is the earliest end of a
// holder's lease, which tells those who look that there may be room.
type lockRow struct {
	last             uint64
	mode             driver.Mode
	through, arrived uint64
	members          int
	recordUntil      micros
	holder           row
}

// fill gives the key what its rows say.
func (l *lock) fill(now micros) {
	r := &l.was
	l.Last, l.Mode, l.Through, l.Arrived = r.last, r.mode, r.through, r.arrived
	if r.recordUntil > now {
		l.Record = &keystate.Record{Until: time.UnixMicro(r.recordUntil)}
		l.record = l.Record
	}
	members := make([]keystate.Member, len(l.all)+1)
	if h := r.holder; h.owner != "" {
		h.mode = r.mode
		h.fill(&members[0])
		l.Add(&members[0])
	}
	// In the order of the queue, where each one is added at the end.
	slices.SortFunc(l.all, func(a, b *row) int { return cmp.Or(cmp.Compare(a.nr, b.nr), cmp.Compare(a.token, b.token)) })
	for i, r := range l.all {
		m := &members[i+1]
		r.fill(m)
		m.Ref = r
		l.Add(m)
	}
}

// row is the lock's own row as it should be.
func (l *lock) row() lockRow {
	r := lockRow{
		last: l.Last, mode: l.Mode, through: l.Through, arrived: l.Arrived, recordUntil: l.was.recordUntil, members: len(l.Holders()) + l.Waiting(),
	}
	if l.Record != l.record {
		r.recordUntil = 0
		if l.Record != nil {
			r.recordUntil = endOf(l.Record.Until)
		}
	}
	if h := l.single(); h != nil {
		r.holder = rowOf(h)
		r.holder.mode, r.holder.permits, r.holder.nr, r.holder.waits = 0, 0, 0, false
		r.members--
		return r
	}
	for _, h := range l.Holders() {
		if until := endOf(h.Until); r.holder.until == 0 || until < r.holder.until {
			r.holder.until = until
		}
	}
	return r
}

// single is the exclusive holder, or nil.
func (l *lock) single() *keystate.Member {
	if holders := l.Holders(); l.Mode == driver.ModeExclusive && len(holders) > 0 {
		return holders[0]
	}
	return nil
}
