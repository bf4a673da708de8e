package script

import (
	"errors"
	"time"
)

// ErrCorrupt: a node returned something that the scripts do not return.
var ErrCorrupt = errors.New("redlock: unexpected reply from Redis")

// The outcomes of a vote.
const (
	No      = 0
	Yes     = 1
	Abstain = 2
)

// Ballot is a node's answer to a request for its vote.
type Ballot struct {
	Outcome int
	Now     int64 // µs of the node's clock
	// Left is how long a holder's lease or another waiter's turn lasts, or the node abstains; below
	// 0: a foreign lock has no end.
	Left time.Duration
	// Yes:
	Token, Reserved uint64
	Awaited         bool // others wait for the key
	Again           bool // the owner had the vote before
	// No:
	Holder string // the lock's value; "": it is another waiter's turn
	Ahead  int    // waiters in front
}

// ReadBallot reads the reply of [Vote].
func ReadBallot(reply any) (Ballot, error) {
	f, ok := fields(reply)
	switch outcome := f.int(0); {
	case ok && outcome == Yes && len(f) == 6:
		return Ballot{
			Outcome: Yes, Token: uint64(f.int(1)), Reserved: uint64(f.int(2)), Now: f.int(3), Awaited: f.int(4) == 1, Again: f.int(5) == 1,
		}, nil
	case ok && outcome == No && len(f) == 5:
		return Ballot{Outcome: No, Holder: f.text(1), Left: f.ms(2), Now: f.int(3), Ahead: int(f.int(4))}, nil
	case ok && outcome == Abstain && len(f) == 3:
		return Ballot{Outcome: Abstain, Left: f.ms(1), Now: f.int(2)}, nil
	}
	return Ballot{}, ErrCorrupt
}

// Ended is a node's answer about the lease of an owner.
type Ended struct {
	Mine   bool   // the lease was the owner's
	Forced bool   // it was taken by force, for this reason
	Reason string // of a ForceRelease
	Called bool   // a release has called a waiter
}

// ReadRelease reads the reply of [Release].
func ReadRelease(reply any) (Ended, error) {
	f, ok := fields(reply)
	switch {
	case ok && len(f) == 2 && f.int(0) == 1:
		return Ended{Mine: true, Called: f.int(1) == 1}, nil
	case ok && len(f) == 2:
		return Ended{Forced: true, Reason: f.text(1)}, nil
	case ok && len(f) == 1 && f.int(0) == 0:
		return Ended{}, nil
	}
	return Ended{}, ErrCorrupt
}

// ReadRenewals reads the reply of [Renew] for n leases.
func ReadRenewals(reply any, n int) ([]Ended, error) {
	f, ok := fields(reply)
	if !ok || len(f) != n {
		return nil, ErrCorrupt
	}
	all := make([]Ended, n)
	for i := range f {
		reason, forced := f[i].(string)
		all[i] = Ended{Mine: f.int(i) == 1, Forced: forced, Reason: reason}
	}
	return all, nil
}

// Sight is what a node has of a lock.
type Sight struct {
	Value   string // "": nothing
	Foreign bool   // the key holds another type
	Left    time.Duration
	Now     int64 // µs of the node's clock
	Ended   bool  // a ForceRelease has ended it
}

// ReadForce reads the reply of [Force].
func ReadForce(reply any) (Sight, error) {
	f, ok := fields(reply)
	if !ok || len(f) != 4 {
		return Sight{}, ErrCorrupt
	}
	return Sight{Now: f.int(0), Value: f.text(1), Left: f.ms(2), Ended: f.int(3) == 1}, nil
}

// ReadShow reads the reply of [Show] for n locks.
func ReadShow(reply any, n int) ([]Sight, error) {
	f, ok := fields(reply)
	if !ok || len(f) != 2*n+1 {
		return nil, ErrCorrupt
	}
	all := make([]Sight, n)
	for i := range all {
		all[i] = Sight{Now: f.int(0), Value: f.text(2*i + 1), Foreign: f.int(2*i+1) == 0, Left: f.ms(2*i + 2)}
	}
	return all, nil
}

// reply is the list that a script returned.
type reply []any

func fields(r any) (reply, bool) {
	list, ok := r.([]any)
	return list, ok && len(list) > 0
}

func (r reply) int(i int) int64 {
	if i >= len(r) {
		return -1
	}
	n, ok := r[i].(int64)
	if !ok {
		return -1
	}
	return n
}

func (r reply) text(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r reply) ms(i int) time.Duration { return time.Duration(r.int(i)) * time.Millisecond }
