package etcdstore

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// commit writes the changes, if nobody was quicker. Otherwise the locks are as they are now.
func (t *tx) commit(keys []string) (done bool, err error) {
	cmps, puts, err := t.changes()
	if err != nil {
		return false, err
	}
	r, err := t.s.client.Txn(t.ctx).If(cmps...).Then(puts...).Else(t.s.questions(keys)...).Commit()
	if err == nil && r.Succeeded || err != nil && !refused(err) {
		for _, l := range t.names {
			l.used = true
		}
	}
	switch {
	case isGone(err):
		t.s.shelf.forget()
		return false, errGone
	case errors.Is(err, rpctypes.ErrNoSpace):
		return t.commitDeletes(cmps, puts, keys, err)
	case err != nil:
		return false, err
	case !r.Succeeded:
		return false, t.see(r, keys)
	}
	t.written(r.Header.Revision)
	return true, nil
}

// commitDeletes writes only what ends leases and waits. That is all that a server without space
// does, and it must be possible. Grants to waiters are left out: each of them asks every now and
// then, and finds its turn when there is space again. What the caller wants for itself is not.
func (t *tx) commitDeletes(cmps []clientv3.Cmp, ops []clientv3.Op, keys []string, full error) (done bool, err error) {
	if !t.ending || len(t.also)+len(t.names) > 0 {
		return false, full
	}
	ops = slices.DeleteFunc(ops, func(op clientv3.Op) bool { return !op.IsDelete() })
	t.s.views.forget(keys)
	t.more = false
	if len(ops) == 0 {
		return true, nil
	}
	r, err := t.s.client.Txn(t.ctx).If(cmps...).Then(ops...).Else(t.s.questions(keys)...).Commit()
	if err == nil && !r.Succeeded {
		err = t.see(r, keys)
		return false, err
	}
	return err == nil, err
}

// changes are the conditions and the operations of the transaction.
func (t *tx) changes() (cmps []clientv3.Cmp, ops []clientv3.Op, err error) {
	for _, l := range t.locks {
		base := t.s.base(l.key)
		joins := false // a waiter only joins the queue
		for _, m := range l.members {
			name := base + memberPart + m.owner
			switch {
			case !m.changed:
			case m.mod == 0:
				// The conditions below do not allow for a member that is not in the view, except
				// for a waiter, which needs only itself to be new.
				if joins = m.waits(); joins {
					cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", 0))
				}
				ops = append(ops, clientv3.OpPut(name, encode(m.memberValue), clientv3.WithLease(m.lease)))
				if m.Once {
					cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(base+recordPart), "=", 0))
				}
			default:
				// The member must still be there. A grant to a waiter that has died, or was
				// ended, meanwhile would let two owners in, one of which does not know.
				cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", m.mod))
				keep := clientv3.WithIgnoreLease()
				if m.attached {
					keep = clientv3.WithLease(m.lease)
				}
				ops = append(ops, clientv3.OpPut(name, encode(m.memberValue), keep))
				if m.Once && l.record == nil {
					cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(base+recordPart), "=", 0))
				}
			}
		}
		for _, m := range l.removed {
			name := base + memberPart + m.owner
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(name), "=", m.mod))
			ops = append(ops, clientv3.OpDelete(name))
		}
		if l.decided || l.freed {
			// Nobody has joined the queue, or got the lock, since it was read.
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(base+memberPart), "<", l.rev+1).WithRange(base+membersEnd))
		}
		if !l.decided {
			continue // the end of a lease that lets nobody in changes nothing else
		}
		if l.was == "" {
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(base+lockPart), "=", 0))
		} else {
			// Not the revision: those begin anew if etcd loses its data. The last token never comes again.
			cmps = append(cmps, clientv3.Compare(clientv3.Value(base+lockPart), "=", l.was))
		}
		put, err := t.putLock(l, base)
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, put)
	}
	return cmps, append(ops, t.also...), nil
}

const (
	// lockStays is how long the key of a lock stays after it was attached to its lease.
	lockStays = 24 * time.Hour
	// lockMoves is the age after which it gets another lease. A lock's key stays for a half to a
	// whole day after its last use.
	lockMoves = lockStays / 2
)

// putLock writes the lock's own key. It seldom gets another lease: that would cost a server with
// authentication time in proportion to the keys of the lease.
func (t *tx) putLock(l *lock, base string) (clientv3.Op, error) {
	now := time.Now()
	keep := clientv3.WithIgnoreLease()
	if age := now.Sub(time.Unix(l.At, 0)); l.was == "" || age > lockMoves || age < -lockMoves {
		id, err := t.s.shelf.lease(t.ctx, lockStays)
		if err != nil {
			return clientv3.Op{}, err
		}
		l.At = now.Unix()
		keep = clientv3.WithLease(id)
	}
	return clientv3.OpPut(base+lockPart, encode(l.lockValue), keep), nil
}

// written brings the locks up to date after a transaction, and remembers them.
func (t *tx) written(rev int64) {
	for _, l := range t.locks {
		for _, m := range l.members {
			if !m.changed {
				continue
			}
			if m.mod == 0 {
				m.create = rev
			}
			m.mod, m.changed, m.attached = rev, false, false
		}
		decided, freed := l.decided, l.freed
		l.decided, l.freed, l.removed = false, false, nil
		if !decided && !freed {
			// Others may have joined the queue since l was read.
			t.s.views.forget([]string{l.key})
			continue
		}
		l.rev = rev
		if decided {
			l.was = encode(l.lockValue)
		}
		t.s.views.keep(l)
	}
}
