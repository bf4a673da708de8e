package phasefair

import (
	"cmp"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Members are the holders of one key and those that wait for it, in the order of [Members.Sort]. A
// store changes them in memory and writes them back. An owner that holds the key does not wait for
// it as well. M is a pointer to what the store keeps of an owner.
type Members[M Member] []M

// Member is an owner at a key.
type Member interface {
	comparable
	Standing() Standing
}

// Standing is what a decision needs to know of a [Member].
type Standing struct {
	Owner   string
	Waits   bool // otherwise it holds the key
	Mode    driver.Mode
	Permits int
	Token   uint64 // of a holder
	Arrived uint64 // of a waiter, see [Waiter]; 0: it comes behind those that have a number
}

// Find returns owner's membership, or nil.
func (all Members[M]) Find(owner string) M {
	for _, m := range all {
		if m.Standing().Owner == owner {
			return m
		}
	}
	var none M
	return none
}

// Holding returns owner's lease, or nil. Token 0 stands for an owner that was not told its token.
func (all Members[M]) Holding(owner string, token uint64) M {
	var none M
	m := all.Find(owner)
	if m == none {
		return none
	}
	if s := m.Standing(); s.Waits || token != 0 && token != s.Token {
		return none
	}
	return m
}

// Holders are the leases in force, in the order of their tokens.
func (all Members[M]) Holders() []M { return all.those(false) }

// Waiters are the requests in the queue, in order of arrival.
func (all Members[M]) Waiters() []M { return all.those(true) }

func (all Members[M]) those(wait bool) []M {
	var some []M
	for _, m := range all {
		if m.Standing().Waits == wait {
			some = append(some, m)
		}
	}
	return some
}

// Ahead is how many requests wait in front of owner's, or of one that comes now.
func (all Members[M]) Ahead(owner string) int {
	waiters := all.Waiters()
	if i := slices.IndexFunc(waiters, func(m M) bool { return m.Standing().Owner == owner }); i >= 0 {
		return i
	}
	return len(waiters)
}

// Sort puts holders in the order of their tokens, and behind them waiters in order of arrival.
func (all Members[M]) Sort() {
	slices.SortStableFunc(all, func(a, b M) int {
		x, y := a.Standing(), b.Standing()
		switch {
		case x.Waits != y.Waits && y.Waits:
			return -1
		case x.Waits != y.Waits:
			return 1
		case x.Waits:
			return cmp.Or(cmp.Compare(x.Arrived-1, y.Arrived-1), cmp.Compare(x.Owner, y.Owner))
		default:
			return cmp.Or(cmp.Compare(x.Token, y.Token), cmp.Compare(x.Owner, y.Owner))
		}
	})
}

// Remove takes m out.
func (all *Members[M]) Remove(m M) {
	*all = slices.DeleteFunc(*all, func(o M) bool { return o == m })
}

// InTheWay returns the holder that a refused request is told of, the one whose lease ends last, and
// when there is room if nobody renews. There must be a holder. mode is that of the leases, and left
// says how long each of them still lasts.
func InTheWay[H any](mode driver.Mode, holders []H, left func(H) time.Duration) (last H, room time.Duration) {
	shorter := func(a, b H) int { return cmp.Compare(left(a), left(b)) }
	last = slices.MaxFunc(holders, shorter)
	if mode == driver.ModePermit {
		return last, max(0, left(slices.MinFunc(holders, shorter))) // a place is free as soon as one holder has gone
	}
	return last, max(0, left(last))
}
