package etcdstore

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// commit writes the changes, as many locks at a time as a transaction takes, if nobody was quicker. Otherwise
// the views are as the locks are now, or nil. wrote: some were written.
func (t *tx) commit(all []*change) (wrote, done bool, err error) {
	for some := range slices.Chunk(all, keysPerTxn) {
		if done, err := t.write(some); !done {
			return wrote, false, err
		}
		wrote = true
	}
	return wrote, true, nil
}

// write is one transaction.
func (t *tx) write(some []*change) (done bool, err error) {
	var cmps []clientv3.Cmp
	var ops []clientv3.Op
	for _, c := range some {
		conditions, puts, err := t.ops(c)
		if err != nil {
			return false, err
		}
		cmps, ops = append(cmps, conditions...), append(ops, puts...)
	}
	var r *clientv3.TxnResponse
	r, done, err = t.send(some, cmps, ops)
	if err == nil && done || err != nil && !refused(err) {
		for _, l := range t.names {
			l.used = true
		}
	}
	switch {
	case isGone(err):
		t.s.shared.forget()
		return false, errGone
	case errors.Is(err, rpctypes.ErrNoSpace):
		return t.writeEnds(some, cmps, ops, err)
	case err != nil || !done:
		return false, err
	}
	for _, c := range some {
		t.views[c.at] = t.remember(c, r.Header.Revision)
	}
	return true, nil
}

// send sends a transaction, and reads the locks if its conditions are not met. Of a set that takes several
// transactions it reads those that this one is about: the others are as they were seen, or as they were
// written.
func (t *tx) send(some []*change, cmps []clientv3.Cmp, ops []clientv3.Op) (r *clientv3.TxnResponse, done bool, err error) {
	keys := t.aim.Keys
	if len(keys) > keysPerTxn {
		keys = nil
		for _, c := range some {
			keys = append(keys, c.Name)
		}
	}
	r, err = t.s.client.Txn(t.ctx).If(cmps...).Then(ops...).Else(t.s.questions(keys)...).Commit()
	if err != nil || r.Succeeded {
		return r, err == nil, err
	}
	views, err := t.s.viewsOf(r, keys)
	t.s.views.Drop(keys...) // they may be of data that etcd has lost
	t.s.saw(views)
	switch {
	case err != nil:
		return r, false, err
	case len(keys) == len(t.aim.Keys):
		t.views, t.fresh, t.term = views, true, r.Header.RaftTerm
	case slices.Contains(t.views, nil):
		t.views = nil
	default:
		for i, c := range some {
			t.views[c.at] = views[i]
		}
	}
	return r, false, nil
}

// writeEnds writes only what ends leases and waits. That is all that a server without space
// does, and it must be possible. Grants to waiters are left out: each of them asks every now and
// then, and finds its turn when there is space again. What the caller wants for itself is not.
func (t *tx) writeEnds(some []*change, cmps []clientv3.Cmp, ops []clientv3.Op, full error) (done bool, err error) {
	if !t.aim.Ends || len(t.names) > 0 || slices.ContainsFunc(some, func(c *change) bool { return len(c.notes) > 0 }) {
		return false, full
	}
	ops = slices.DeleteFunc(ops, func(op clientv3.Op) bool { return !op.IsDelete() })
	t.s.views.Drop(t.aim.Keys...)
	t.More = false
	if len(ops) == 0 {
		return true, nil
	}
	_, done, err = t.send(some, cmps, ops)
	return done, err
}

// ops are the conditions and the operations of a change.
func (t *tx) ops(c *change) (cmps []clientv3.Cmp, ops []clientv3.Op, err error) {
	base := t.s.base(c.Name)
	noRecord := clientv3.Compare(clientv3.ModRevision(base+recordPart), "=", 0)
	for _, w := range c.writes {
		if w.member == nil {
			name := base + memberPart + w.was.owner
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", w.was.mod))
			ops = append(ops, clientv3.OpDelete(name))
			continue
		}
		name, keep := base+memberPart+w.member.Owner, clientv3.WithIgnoreLease()
		if w.lease != clientv3.NoLease {
			keep = clientv3.WithLease(w.lease)
		}
		ops = append(ops, clientv3.OpPut(name, encode(w.value), keep))
		switch {
		case w.was != nil:
			// The member must still be there. A grant to a waiter that has died, or was
			// ended, meanwhile would let two owners in, one of which does not know.
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", w.was.mod))
		case w.member.Waits:
			// The conditions below do not allow for a member that was not seen, except for a waiter that
			// joins the queue. It needs only itself to be new.
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", 0))
		}
		if takes := w.was == nil && t.aim.Records || w.was != nil && w.was.Once; takes && c.seen.record == nil {
			cmps = append(cmps, noRecord)
		}
	}
	if c.decided() || c.ends && !t.OnlyEnds {
		// Nobody has joined the queue, or got the lock, since it was read.
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(base+memberPart), "<", c.seen.rev+1).WithRange(base+membersEnd))
	}
	if !c.decided() {
		return cmps, append(ops, c.notes...), nil // the end of a lease that lets nobody in changes nothing else
	}
	if c.seen.was == "" {
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(base+lockPart), "=", 0))
	} else {
		// Not the revision: those begin anew if etcd loses its data. The last token never comes again.
		cmps = append(cmps, clientv3.Compare(clientv3.Value(base+lockPart), "=", c.seen.was))
	}
	put, err := t.putLock(c, base+lockPart)
	return cmps, append(append(ops, put), c.notes...), err
}

const (
	// lockKept is how long the key of a lock is kept after it was attached to its lease.
	lockKept = 24 * time.Hour
	// lockMoves is the age after which it gets another lease. A lock's key is kept for a half to a
	// whole day after its last use.
	lockMoves = lockKept / 2
)

// putLock writes the lock's own key. It seldom gets another lease: that would cost a server with
// authentication time in proportion to the keys of the lease.
func (t *tx) putLock(c *change, name string) (clientv3.Op, error) {
	value, keep := c.value(), clientv3.WithIgnoreLease()
	if age := t.Now.Sub(time.Unix(value.At, 0)); c.seen.was == "" || age > lockMoves || age < -lockMoves {
		id, err := t.s.shared.lease(t.ctx, lockKept)
		if err != nil {
			return clientv3.Op{}, err
		}
		value.At = t.Now.Unix()
		keep = clientv3.WithLease(id)
	}
	c.wrote = value
	return clientv3.OpPut(name, encode(value), keep), nil
}

// remember keeps the view of a lock after a transaction, and returns it; nil: it is not known.
func (t *tx) remember(c *change, rev int64) *view {
	if !c.decided() && (!c.ends || t.OnlyEnds) {
		return nil // others may have joined the queue since it was read
	}
	v := &view{lockValue: c.seen.lockValue, key: c.Name, was: c.seen.was, rev: rev, read: c.seen.read} // without the record, which may end at any time
	if c.decided() {
		v.lockValue, v.was = c.wrote, encode(c.wrote)
	}
	for _, w := range c.writes {
		if w.member == nil {
			continue
		}
		e := &entry{memberValue: w.value, owner: w.member.Owner, create: rev, mod: rev, lease: w.lease}
		if w.was != nil {
			e.create = w.was.create
			if e.lease == clientv3.NoLease {
				e.lease = w.was.lease
			}
		}
		w.member.Ref = &node{was: e}
	}
	for _, m := range slices.Concat(c.Holders(), c.Waiters()) {
		v.entries = append(v.entries, m.Ref.(*node).was)
	}
	t.s.views.Put(v.key, v)
	return v
}
