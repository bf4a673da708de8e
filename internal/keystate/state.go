package keystate

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// State is the keys of one request at one moment, and what a store does with their waiters. Its methods
// are the decisions. Each of them first takes out what is over and lets in those whose turn it is, and
// does so again at the end: a request never overtakes a waiter. They change the keys in place. After an
// error, except those that say so, nothing of that may be written.
type State struct {
	Now  time.Time
	Keys []*Key // of the claims of the request, in their order

	*Rules // nil: none

	// Complete, if set, reads the waiters whose turn it is, in a store that has read nothing but the order
	// of the queue. Until then such a waiter may have a stand-in for its Owner, different from all owners.
	Complete func(*Key, []*Member) error

	// OnlyEnds: the decision only ends leases and waits, as if they had run out by themselves, and lets
	// nobody in. That is for a store in which others are always quicker to write; it settles afterwards.
	OnlyEnds bool

	Woken  []Woken  // whom the store has to tell, once the decision is written
	Wanted *Wanted  // and whom, that its lease is in the way; nil: nobody
	Forced []Forced // which owners have lost leases by force, to be kept for them for a while
	More   bool     // there are waiters whose turn it is, beyond Most
	// Refused: others are in the way, or the owner has not what is to change. So a store that has decided
	// from what it remembers has to read, and to decide anew.
	Refused bool
}

// Rules are what a backend adds to the decisions. The zero value adds nothing.
type Rules struct {
	// Term is how long a lease lasts that is given to a waiter, until the waiter asks for more of it;
	// 0: the TTL of its request.
	Term time.Duration
	// Place is how long a place in a queue lasts, from the last time that the waiter has asked; 0: until
	// the backend ends it.
	Place time.Duration
	// Untimed: the backend ends what is over, and nobody knows when, so members have no Until.
	Untimed bool
	// Most is how many waiters one decision lets in; 0: all.
	Most int
}

// Woken is a waiter that was let in. Or it was told that there is a record, and still has Waits.
type Woken struct {
	Key *Key
	*Member
}

// Forced says why an owner has lost a lease.
type Forced struct {
	Key, Owner, Reason string
	Token              uint64
}

// Wanted is a message to the engine of a lease that lingers: somebody else wants the key. Inbox and
// Ref are those of the lease.
type Wanted struct {
	Key, Owner, Inbox string
	Ref               any
}

// Settle takes out what is over, and lets in those whose turn it is.
func (s *State) Settle() error {
	for _, k := range s.Keys {
		if k.Waiting() == 0 && k.Record == nil && k.lasts(s.Now) {
			continue // most often
		}
		if err := s.settle(k); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) settle(k *Key) error {
	if s.OnlyEnds {
		return nil
	}
	if k.expire(s.Now); k.Waiting() == 0 {
		return nil
	}
	return s.admit(k)
}

// admit lets in those whose turn it is.
func (s *State) admit(k *Key) error {
	if k.Record != nil && k.executions > 0 {
		s.tellRecord(k)
	}
	from, holders := len(s.Woken), len(k.holders)
	for {
		next, phase := k.next(holders)
		if next == nil {
			break
		}
		if s.isFull() {
			s.More = true
			break
		}
		k.Remove(next)
		k.Phase = phase
		holders++
		s.Woken = append(s.Woken, Woken{k, next})
	}
	if len(s.Woken) == from {
		return nil
	}
	if s.Complete != nil {
		next := make([]*Member, 0, len(s.Woken)-from)
		for _, w := range s.Woken[from:] {
			next = append(next, w.Member)
		}
		if err := s.Complete(k, next); err != nil {
			return err
		}
	}
	for _, w := range s.Woken[from:] {
		term := w.TTL
		if s.Rules != nil && s.Term > 0 {
			term = min(term, s.Term)
		}
		s.enter(k, w.Member, term)
		k.Add(w.Member)
	}
	return nil
}

func (s *State) isFull() bool { return s.Rules != nil && s.Most > 0 && len(s.Woken) >= s.Most }

// tellRecord takes those out of the queue that a record serves (L2). The others wait on.
func (s *State) tellRecord(k *Key) {
	for m := k.others.front; m != nil && k.executions > 0; {
		next := m.next
		if m.Once {
			if s.isFull() {
				s.More = true
				return
			}
			k.Remove(m)
			s.Woken = append(s.Woken, Woken{k, m})
		}
		m = next
	}
}

// enter makes m a holder for a while, under a token of its own. Its caller links it.
func (s *State) enter(k *Key, m *Member, term time.Duration) {
	m.Waits, m.Once, m.Arrived = false, false, 0
	m.Since, m.Extended = s.Now, true
	m.Until = s.end(term)
	m.Token, m.Reserved = driver.NextTokens(k.Last, s.Now, m.Reserved)
	k.Last = m.Token + m.Reserved
}

// end is the moment at which what is to last for d ends.
func (s *State) end(d time.Duration) time.Time {
	if s.Rules != nil && s.Untimed {
		return time.Time{}
	}
	return s.Now.Add(d)
}
