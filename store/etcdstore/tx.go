package etcdstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// keysPerTxn is how many locks are decided about in one transaction of etcd, which takes 128
// operations by default (max-txn-ops). A greater set takes several.
const keysPerTxn = 16

// tx is a decision about some locks. It reads who holds them and who waits, changes that in memory,
// and writes what has changed in one transaction of etcd, on the condition that nobody else has
// changed it meanwhile. Otherwise it begins again.
type tx struct {
	s     *Store
	ctx   context.Context
	locks []*lock // in order of their keys

	// fresh: the locks were read from etcd since the call began. Otherwise they are what this
	// store remembers, which is only good for a decision that is then written.
	fresh   bool
	term    uint64 // of raft, when they were read
	more    bool   // others enter with the next step
	also    []clientv3.Op
	names   []*lease // the leases that the changes name
	crowded bool     // others have been quicker several times
	ending  bool     // all that the caller wants is to end what it has
}

// errLook is what a decision returns that needs fresh locks.
var errLook = errors.New("etcdstore: not known by heart")

// tries is the number of conflicts after which a decision is repeated with pauses.
const tries = 3

// how says how a decision begins, and what to do if others are always quicker.
type how uint8

const (
	byHeart how = 0      // begin with what the store remembers
	look    how = 1 << 0 // read the locks first
	ending  how = 1 << 1 // all that the caller wants is to end what it has
)

// transact runs decide on the locks of keys, which are in order, until its changes are written.
//
// After an error that refused reports, nothing was written. After any other error except a verdict,
// nobody knows.
func (s *Store) transact(ctx context.Context, keys []string, h how, decide func(*tx) error) error {
	t := &tx{s: s, ctx: ctx, ending: h&ending != 0}
	if h&look == 0 {
		t.recall(keys)
	}
	for n := 0; ; n++ {
		if t.locks == nil {
			if err := t.load(keys); err != nil {
				return err
			}
		}
		changed, err := t.decide(decide)
		switch {
		case !t.fresh && (err != nil || !changed):
			t.locks = nil
			continue
		case err != nil || !changed:
			return err
		}
		done, err := t.commit(keys)
		switch {
		case errors.Is(err, errGone) && len(t.names) == 0 && n < tries:
			t.locks = nil // a lease of the shelf has gone, which has others by now
			continue
		case err != nil:
			s.views.forget(keys)
			return err
		case done:
			t.letIn(keys)
			return nil
		}
		t.crowded = n+1 >= tries
		if n >= tries && !waitloop.Sleep(ctx, rand.N(time.Duration(min(n, 20))*time.Millisecond)) {
			return ctx.Err()
		}
	}
}

// letIn lets those in for whom a decision had no room. If it fails, they find out by themselves.
func (t *tx) letIn(keys []string) {
	t.ending = false
	for conflicts := 0; t.more && conflicts < tries; {
		if err := t.load(keys); err != nil {
			return
		}
		changed, err := t.decide(func(*tx) error { return nil })
		if err != nil || !changed {
			return
		}
		done, err := t.commit(keys)
		if err != nil {
			return
		}
		if !done {
			t.more = true
			conflicts++
		}
	}
}

// decide changes the locks in memory, and reports whether there is anything to write.
func (t *tx) decide(decide func(*tx) error) (changed bool, err error) {
	t.more, t.also, t.names = false, nil, nil
	// A lease can be ended without a decision about the lock, as when it runs out. That has no
	// conflicts with those who come and go all the time.
	apart := t.ending && t.crowded
	for _, l := range t.locks {
		if !apart {
			t.step(l) // a lease may have ended since the last look
		}
	}
	if err := decide(t); err != nil {
		return false, err
	}
	for _, l := range t.locks {
		if apart {
			l.freed, t.more = false, true
		} else {
			t.step(l)
		}
		changed = changed || l.decided || len(l.removed) > 0 || slices.ContainsFunc(l.members, func(m *member) bool { return m.changed })
	}
	return changed || len(t.also) > 0, nil
}
