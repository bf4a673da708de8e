package keystate

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Member is an owner that holds a key or waits for it. An owner that holds a key does not wait for it
// as well. A pointer to one is valid until the member has gone from its key.
type Member struct {
	Owner   string
	Waits   bool // otherwise it holds the key
	Mode    driver.Mode
	Permits int

	Arrived  uint64 // of a waiter: its place in the order of arrival
	Token    uint64 // of a holder
	Reserved uint64 // the tokens after it that are its own; of a waiter, as many as it wants

	Since time.Time     // when it was granted, or began to wait
	Until time.Time     // when it ends by itself; zero: the backend ends it
	TTL   time.Duration // the one that the owner asked for last; a borrower's may not be longer

	// Extended: this decision has given the lease another term, also if it ends at the same moment as before,
	// because the store's clock has not gone on.
	Extended bool
	Partial  bool // a holder: a part of a set that waits for the rest
	Released bool // a holder: its owner has released it, and it stays for a while (R6)
	Once     bool // a waiter: a record serves as well as the lease
	Linger   bool // its engine may keep the lease after its release, while nobody else wants it

	Inbox       string // where messages reach its process; "": nowhere
	Rule, Trace string

	// Ref is the store's own. Package keystate never looks at it.
	Ref any

	prev, next *Member // in a queue
}

// Lingers reports whether the engine wants to be told that somebody else wants the key. A lease that is
// shared, or was downgraded, does not linger.
func (m *Member) Lingers() bool { return m.Linger && !m.Waits && m.Mode == driver.ModeExclusive }

// queue is a list of waiters in order of arrival. A waiter may leave at any place.
type queue struct {
	front, back *Member
	n           int
}

// push puts m at its place, which is nearly always the end.
func (q *queue) push(m *Member) {
	after := q.back
	for after != nil && after.Arrived > m.Arrived {
		after = after.prev
	}
	m.prev, m.next = after, q.front
	if after != nil {
		m.next, after.next = after.next, m
	} else {
		q.front = m
	}
	if m.next != nil {
		m.next.prev = m
	} else {
		q.back = m
	}
	q.n++
}

func (q *queue) remove(m *Member) {
	if m.prev == nil {
		q.front = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		q.back = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
	q.n--
}
