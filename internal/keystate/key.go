package keystate

import (
	"cmp"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Key is a key with everybody who holds it or waits for it. A store that reads its keys from a backend
// makes one from what it has read, and adds the members. A store in memory keeps it. The zero value,
// with a name, is a key that nobody has used.
type Key struct {
	Name    string
	Phase          // kept when the last lease ends
	Last    uint64 // the greatest token that was given or reserved
	Arrived uint64 // the greatest Arrived of a waiter so far, unless the backend numbers them
	Record  *Record

	// Ref is the store's own. Package keystate never looks at it.
	Ref any

	holders    []*Member          // in order of their tokens
	readers    queue              // waiting shared requests, which enter together
	others     queue              // all other waiting requests, which enter one after the other
	executions int                // waiters that a record serves, too
	index      map[string]*Member // by owner; nil: none is needed
	searched   int                // how often the members, more than a few, were searched without an index
	soonest    time.Time          // no member ends before; zero: none ends by itself
	spare      *Member            // for the next member: a key that comes and goes costs no allocation
}

// few is how many members are found without an index, and how often more are searched before there is
// one: a store that reads its keys from a backend searches them a few times.
const few = 8

// Reset makes k a key that nobody has used, which keeps the memory that it has.
func (k *Key) Reset(name string) {
	holders := k.holders[:0]
	if cap(holders) > few {
		holders = nil
	}
	*k = Key{Name: name, Ref: k.Ref, holders: holders, spare: k.spare}
}

// Add adds a member, at its place.
func (k *Key) Add(m *Member) {
	if k.index != nil {
		k.index[m.Owner] = m
	}
	k.ends(m.Until)
	if m.Waits {
		if m.Arrived == 0 { // behind all that wait, and all that the present phase has admitted
			m.Arrived = max(k.Arrived, k.Through) + 1
		}
		k.Arrived = max(k.Arrived, m.Arrived)
		k.queue(m).push(m)
		if m.Once {
			k.executions++
		}
		return
	}
	k.holders = append(k.holders, m)
	if n := len(k.holders); n > 1 && k.holders[n-2].Token > m.Token {
		at, _ := slices.BinarySearchFunc(k.holders[:n-1], m.Token, byToken)
		copy(k.holders[at+1:], k.holders[at:])
		k.holders[at] = m
	}
}

// Remove takes a member out. Whose turn it is then, [State.Settle] finds out.
func (k *Key) Remove(m *Member) {
	if k.index != nil {
		delete(k.index, m.Owner)
	}
	if m.Waits {
		k.queue(m).remove(m)
		if m.Once {
			k.executions--
		}
	} else {
		i := 0
		if len(k.holders) > few {
			i, _ = slices.BinarySearchFunc(k.holders, m.Token, byToken)
		}
		for k.holders[i] != m { // a backend may have two with the same token
			i++
		}
		k.holders = slices.Delete(k.holders, i, i+1)
	}
	if k.size() == 0 {
		k.soonest = time.Time{}
	}
}

func byToken(m *Member, token uint64) int { return cmp.Compare(m.Token, token) }

// end takes a holder out whose memory nobody needs any more.
func (k *Key) end(m *Member) {
	k.Remove(m)
	k.spare = m
}

// member returns memory for a member.
func (k *Key) member() *Member {
	m := k.spare
	if m == nil {
		return new(Member)
	}
	k.spare = nil
	return m
}

// Find returns owner's membership, or nil.
func (k *Key) Find(owner string) *Member {
	if k.index != nil {
		return k.index[owner]
	}
	for _, m := range k.holders {
		if m.Owner == owner {
			return m
		}
	}
	if k.size() > few {
		if k.searched++; k.searched > few {
			k.makeIndex()
		}
	}
	if k.Waiting() == 0 {
		return nil
	}
	for m := range k.all {
		if m.Owner == owner {
			return m
		}
	}
	return nil
}

func (k *Key) makeIndex() {
	k.index = make(map[string]*Member, 2*k.size())
	for m := range k.all {
		k.index[m.Owner] = m
	}
}

// Holding returns owner's lease, or nil. Token 0 stands for an owner that was not told its token.
func (k *Key) Holding(owner string, token uint64) *Member {
	m := k.Find(owner)
	if m == nil || m.Waits || token != 0 && token != m.Token {
		return nil
	}
	return m
}

// Holders are the leases in force, in the order of their tokens. The caller must not change the slice.
func (k *Key) Holders() []*Member { return k.holders }

// Waiters are the requests in the queue, in order of arrival.
func (k *Key) Waiters() []*Member {
	if k.Waiting() == 0 {
		return nil // as of most keys that are written
	}
	waiters := make([]*Member, 0, k.Waiting())
	r, o := k.readers.front, k.others.front
	for r != nil || o != nil { // each queue is in order
		next := &r
		if r == nil || o != nil && o.Arrived < r.Arrived {
			next = &o
		}
		waiters = append(waiters, *next)
		*next = (*next).next
	}
	return waiters
}

// Waiting is how many requests wait.
func (k *Key) Waiting() int { return k.readers.n + k.others.n }

// Soonest is a moment before which no member ends by itself; zero: none ends.
func (k *Key) Soonest() time.Time { return k.soonest }

// IsFree reports whether nobody holds the key or waits for it.
func (k *Key) IsFree() bool { return k.size() == 0 }

func (k *Key) size() int { return len(k.holders) + k.Waiting() }

// all yields the holders, and then the waiters in no particular order.
func (k *Key) all(yield func(*Member) bool) {
	for _, m := range k.holders {
		if !yield(m) {
			return
		}
	}
	for _, q := range [...]queue{k.readers, k.others} {
		for m := q.front; m != nil; m = m.next {
			if !yield(m) {
				return
			}
		}
	}
}

// ahead is how many requests wait in front of own.
func (k *Key) ahead(own *Member) (n int) {
	for _, q := range [...]queue{k.readers, k.others} {
		for m := q.front; m != nil && m.Arrived < own.Arrived; m = m.next {
			n++
		}
	}
	return n
}

func (k *Key) queue(m *Member) *queue {
	if m.Mode == driver.ModeShared {
		return &k.readers
	}
	return &k.others
}

// ends notes that a member ends at until.
func (k *Key) ends(until time.Time) {
	if !until.IsZero() && (k.soonest.IsZero() || until.Before(k.soonest)) {
		k.soonest = until
	}
}

// expire takes out what is over.
func (k *Key) expire(now time.Time) {
	if r := k.Record; r != nil && !r.Until.IsZero() && !now.Before(r.Until) {
		k.Record = nil
	}
	if k.lasts(now) {
		return
	}
	var over []*Member
	k.soonest = time.Time{}
	for m := range k.all {
		if !m.Until.IsZero() && !now.Before(m.Until) {
			over = append(over, m)
		} else {
			k.ends(m.Until)
		}
	}
	for _, m := range over {
		k.Remove(m)
	}
}

// lasts reports whether no member is over.
func (k *Key) lasts(now time.Time) bool { return k.soonest.IsZero() || now.Before(k.soonest) }
