package etcdstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	// keysPerTxn is how many locks one transaction of etcd writes, which takes 128 operations by default
	// (max-txn-ops). A greater set takes several.
	keysPerTxn = 16
	// keysPerRead is how many it reads, with two operations for each.
	keysPerRead = mostTxnOps / 2
	// mostLetIn is how many waiters one decision lets in, each with one operation.
	mostLetIn = 56
	// forcedAtOnce is how many leases one decision takes by force, each with two operations.
	forcedAtOnce = 24
)

// rules are what etcd adds to decisions: leases and places in queues end with the leases of etcd that keep
// their keys.
var rules = keystate.Rules{Untimed: true, Most: mostLetIn}

// tx is a decision about some locks. It reads who holds them and who waits, has package keystate decide, and
// writes what has changed, on the condition that nobody else has changed it meanwhile. Otherwise it begins
// again.
type tx struct {
	keystate.State
	s     *Store
	ctx   context.Context
	aim   casstore.Aim
	views []*view // in order of their keys
	locks []*lock // made of them, and changed by the decision

	// leaseFor returns the lease of etcd that is to keep a member of the request: one that is new, or whose
	// lease is to last for another term. nil: the one that keeps it.
	leaseFor func(*tx, *keystate.Member, *entry) (*lease, error)
	own      *lease // the usual answer to that

	// fresh: the locks were read from etcd since the call began. Otherwise they are what this
	// store remembers, which is only good for a decision that is then written.
	fresh   bool
	term    uint64   // of raft, when they were read
	crowded bool     // others have been quicker several times
	names   []*lease // the leases that the changes name
}

// tries is the number of conflicts after which a decision is repeated with pauses.
const tries = 3

func (s *Store) tx(ctx context.Context, a casstore.Aim) *tx {
	return &tx{s: s, ctx: ctx, aim: a, leaseFor: (*tx).newLease}
}

// recall begins with what the store remembers.
func (t *tx) recall() {
	for _, key := range t.aim.Keys {
		t.views = append(t.views, t.s.recall(key))
	}
}

// load reads the locks.
func (t *tx) load() (err error) {
	t.views, t.term, err = t.s.read(t.ctx, t.aim.Keys)
	t.fresh = true
	t.s.saw(t.views)
	return err
}

// reset forgets what was decided.
func (t *tx) reset() {
	t.State = keystate.State{Now: time.Now(), Rules: &rules, OnlyEnds: t.aim.Ends && t.crowded}
	t.locks, t.names = nil, nil
	for _, v := range t.views {
		l := v.lock()
		t.locks, t.Keys = append(t.locks, l), append(t.Keys, l.Key)
	}
}

// run runs decide until its changes are written, on what the store remembers of the locks, or on what it
// reads.
//
// After an error that refused reports, nothing was written. After any other error except an answer of
// decide, nobody knows. unsure: a part of the locks was written, and then others were quicker.
func (t *tx) run(decide func(*tx) error) (unsure bool, err error) {
	defer t.giveBack()
	for conflicts := 0; ; {
		if t.views == nil {
			if err := t.load(); err != nil {
				return unsure, err
			}
		}
		t.reset()
		err := decide(t)
		if err != nil && t.fresh {
			return unsure, err
		}
		var all []*change
		if err == nil && (t.fresh || !t.Refused) {
			if all, err = t.changes(); err != nil {
				return unsure, err
			}
		}
		if len(all) == 0 && !t.fresh {
			t.views = nil
			continue
		}
		wrote, done, err := t.commit(all)
		unsure = unsure || wrote && !done
		switch {
		case errors.Is(err, errGone) && len(t.names) == 0 && conflicts < tries:
			t.views = nil // a lease for what is retained has gone; there are others by now
		case err != nil:
			t.s.views.Drop(t.aim.Keys...)
			return unsure, err
		case done:
			t.conclude(all)
			return unsure, nil
		}
		conflicts++
		t.crowded = conflicts >= tries
		if conflicts > tries && !waitloop.Sleep(t.ctx, rand.N(time.Duration(min(conflicts, 20))*time.Millisecond)) {
			return unsure, t.ctx.Err()
		}
	}
}

// conclude does what follows from a decision that was written.
func (t *tx) conclude(all []*change) {
	if t.Wanted != nil {
		t.s.send(*t.Wanted)
	}
	t.recycle(all)
	if t.More || t.OnlyEnds {
		t.letIn()
	}
}

// letIn lets those in for whom a decision had no place. If it fails, they find out by themselves.
func (t *tx) letIn() {
	_, _ = t.s.tx(t.ctx, casstore.Aim{Keys: t.aim.Keys}).run(func(t *tx) error { return t.Settle() })
}

// newLease is leaseFor of a request that is about a grant: one new lease for all claims.
func (t *tx) newLease(m *keystate.Member, _ *entry) (l *lease, err error) {
	if t.own == nil {
		t.own, err = t.s.leases.grant(t.ctx, m.TTL)
	}
	return t.own, err
}

// giveBack gives back a lease that was not used.
func (t *tx) giveBack() {
	if t.own != nil && !t.own.used {
		t.s.leases.put(t.own)
	}
}

// recycle puts the lease of a grant back whose claims were all released. It is worth it if the lease
// was renewed lately, and safe if nothing else is attached to it.
func (t *tx) recycle(all []*change) {
	g := t.aim.Grant
	if g == nil || g.Since.IsZero() || len(all) == 0 {
		return
	}
	last := all[len(all)-1] // of a set that took several transactions, the others went before
	for _, w := range last.writes {
		e := w.was
		if w.member == nil && e.owner == g.Owner && e.Set == len(g.Claims) && e.ttl() == g.TTL && e.term() == g.TTL {
			t.s.leases.put(&lease{id: e.lease, ttl: g.TTL, since: g.Since})
		}
	}
}
