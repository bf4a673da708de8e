package phasefair

import "github.com/keyturn/keyturn/core/driver"

// MostPerStep is how many waiters a store admits with one step, if the cost of a step to its
// backend grows with their number.
const MostPerStep = 64

// Lock is a key as a store reads it from its backend. Leases that are over and waiters that are dead
// are not among its members.
type Lock[M Member] struct {
	Phase
	Members[M]
}

// Step is one decision about a key.
type Step[M Member] struct {
	// Granted lists the waiters that are admitted, in the order of their tokens.
	Granted []M
	// Phase has to be stored together with the grants, in one atomic step.
	Phase Phase
	// More reports that others enter with the next step. Readers still belong to the phase,
	// waiters that come meanwhile; permits keep their place in the queue.
	More bool
}

// Step says whose turn it is, for at most that many waiters; most must be 1 or more. A store takes
// a step after everything that can make room: a release, forced or not, a downgrade, the end of a
// lease, and the end of a wait.
func (l Lock[M]) Step(most int) Step[M] {
	left := l.sides()
	step := Step[M]{Phase: l.Phase}
	for {
		turn, phase := left.key(step.Phase).Next()
		if turn == Nobody {
			return step
		}
		if len(step.Granted) >= most {
			step.More = true
			return step
		}
		next := &left.readers
		if turn == Other {
			next = &left.others
		}
		step.Granted, *next = append(step.Granted, (*next)[0]), (*next)[1:]
		step.Phase = phase
		left.holders++
	}
}

// Admits reports whether a request that comes now gets c.
func (l Lock[M]) Admits(c driver.Claim) bool { return l.sides().key(l.Phase).Admits(c) }

// Downgraded is the phase after the only holder has turned its exclusive lease into a shared
// one (M5). The readers enter with the next step.
func (l Lock[M]) Downgraded() Phase { return l.sides().key(l.Phase).Shared() }

// Reach says how far a set gets (S1): how many of its claims, from the first, the owner has or gets.
// It takes these, waits at the next one and holds nothing behind that. lock returns the lock of each
// claim. A claim that the owner holds in another mode is a [*driver.DeadlockError],
// wherever it stands in the set.
func Reach[M Member](owner string, claims []driver.Claim, lock func(int) Lock[M]) (int, error) {
	var none M
	reach := len(claims)
	for i, c := range claims {
		l := lock(i)
		m := l.Holding(owner, 0)
		switch {
		case m == none:
			if i < reach && !l.Admits(c) {
				reach = i
			}
		case m.Standing().Mode != c.Mode:
			return 0, &driver.DeadlockError{Key: c.Key, Held: driver.Claim{Key: c.Key, Mode: m.Standing().Mode}, Wanted: c}
		}
	}
	return reach, nil
}

// sides are the members of a lock, as far as a decision tells them apart.
type sides[M Member] struct {
	holders         int
	readers, others []M // in order of arrival
}

func (l Lock[M]) sides() (s sides[M]) {
	for _, m := range l.Members {
		switch standing := m.Standing(); {
		case !standing.Waits:
			s.holders++
		case standing.Mode == driver.ModeShared:
			s.readers = append(s.readers, m)
		default:
			s.others = append(s.others, m)
		}
	}
	return s
}

// key is what decides whose turn it is in phase p.
func (s sides[M]) key(p Phase) Key {
	k := Key{Phase: p, Holders: s.holders}
	if n := len(s.readers); n > 0 {
		k.Reader, k.LastReader = s.readers[0].Standing().waiter(), s.readers[n-1].Standing().Arrived
	}
	if len(s.others) > 0 {
		k.Other = s.others[0].Standing().waiter()
	}
	return k
}

func (s Standing) waiter() Waiter {
	return Waiter{Claim: driver.Claim{Mode: s.Mode, Permits: s.Permits}, Arrived: s.Arrived}
}
