package etcdstore

import (
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/internal/keystate"
)

// change is what a decision has changed of a lock.
type change struct {
	*lock
	at     int           // its number among the locks of the decision
	writes []write       // of members
	enters bool          // somebody has got the lock
	ends   bool          // a holder has gone
	notes  []clientv3.Op // about the record, and about leases that were taken by force
	wrote  lockValue     // what was put for the lock, if it was decided
}

// write is a change of a member's key.
type write struct {
	was    *entry           // nil: it is not in etcd yet
	member *keystate.Member // nil: it ends
	value  memberValue
	lease  clientv3.LeaseID // NoLease: the one that keeps it
}

// value is what the lock's own key should keep.
func (l *lock) value() lockValue {
	return lockValue{Last: l.Last, Mode: l.Mode, Through: l.Through, At: l.seen.At}
}

// decided reports whether the lock's own key is to be written, so that two such decisions never meet.
func (c *change) decided() bool { return c.enters || c.value() != c.seen.lockValue }

// changes finds out what was changed by comparing, and gets the leases of etcd that this takes.
func (t *tx) changes() (all []*change, err error) {
	for at, l := range t.locks {
		c := &change{lock: l, at: at}
		for _, m := range slices.Concat(l.Holders(), l.Waiters()) {
			if err := t.compare(c, m); err != nil {
				return nil, err
			}
		}
		for i := range l.nodes {
			if n := &l.nodes[i]; !n.remains {
				c.end(n.was)
			}
		}
		for _, e := range l.seen.strays {
			c.end(e)
		}
		if err := t.note(c); err != nil {
			return nil, err
		}
		if len(c.writes)+len(c.notes) > 0 {
			all = append(all, c)
		}
	}
	return all, nil
}

// compare notes what has changed of a member.
func (t *tx) compare(c *change, m *keystate.Member) error {
	w := write{member: m}
	if n, ok := m.Ref.(*node); ok {
		n.remains, w.was = true, n.was
	}
	w.value = valueOf(m, w.was)
	if !m.Waits && (w.was == nil || w.was.waits()) {
		c.enters, w.value.Others = true, c.Waiting() > 0
		t.s.compareClocks(c.seen.Last, t.Now)
	}
	if m.Owner == t.aim.Owner && (w.was == nil || m.Extended) {
		l, err := t.leaseFor(t, m, w.was)
		if err != nil {
			return err
		}
		if l != nil && (w.was == nil || w.was.lease != l.id) {
			w.lease, w.value.Lease, w.value.Set = l.id, int64(l.ttl/time.Second), len(t.aim.Keys)
			t.names = append(t.names, l)
		}
	}
	if w.was == nil || w.lease != clientv3.NoLease || w.value != w.was.memberValue {
		c.writes = append(c.writes, w)
	}
	return nil
}

// end notes that a member has gone, or that another one has taken its key.
func (c *change) end(e *entry) {
	c.ends = c.ends || !e.waits()
	for i := range c.writes {
		if w := &c.writes[i]; w.was == nil && w.member.Owner == e.owner {
			w.was = e
			return
		}
	}
	c.writes = append(c.writes, write{was: e})
}

// note notes what is written besides members.
func (t *tx) note(c *change) error {
	base := t.s.base(c.Name)
	if r := c.Record; r != nil && r != c.seen.record {
		l, err := t.s.shared.lease(t.ctx, seconds(r.Until.Sub(t.Now)))
		if err != nil {
			return err
		}
		c.notes = append(c.notes, clientv3.OpPut(base+recordPart, encodeRecord(r), clientv3.WithLease(l)))
	}
	for _, f := range t.Forced { // of the only key
		l, err := t.s.shared.lease(t.ctx, keystate.ReasonKept)
		if err != nil {
			return err
		}
		value := encode(forcedValue{Token: f.Token, Reason: text(f.Reason)})
		c.notes = append(c.notes, clientv3.OpPut(base+forcedPart+f.Owner, value, clientv3.WithLease(l)))
	}
	return nil
}
