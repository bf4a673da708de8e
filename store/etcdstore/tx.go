package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
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
	fresh bool
	term  uint64 // of raft, when they were read
	more  bool   // others enter with the next step
	also  []clientv3.Op
	names []*lease // the leases that the changes name
}

// errLook is what a decision returns that needs fresh locks.
var errLook = errors.New("etcdstore: not known by heart")

// tries is the number of conflicts after which a decision is repeated with pauses.
const tries = 3

// transact runs decide on the locks of keys, which are in order, until its changes are written. With
// look, it reads them first; otherwise it may begin with what this store remembers.
//
// After an error that refused reports, nothing was written. After any other error except a verdict,
// nobody knows.
func (s *Store) transact(ctx context.Context, keys []string, look bool, decide func(*tx) error) (*tx, error) {
	t := &tx{s: s, ctx: ctx}
	if !look {
		t.recall(keys)
	}
	for n := 0; ; n++ {
		if t.locks == nil {
			if err := t.load(keys); err != nil {
				return t, err
			}
		}
		changed, err := t.decide(decide)
		switch {
		case !t.fresh && (err != nil || !changed):
			t.locks = nil
			continue
		case err != nil || !changed:
			return t, err
		}
		done, err := t.commit(keys)
		if err != nil {
			s.views.forget(keys)
			return t, err
		}
		if done && !t.more {
			return t, nil
		}
		if done {
			// What decide wanted is written. The rest is for waiters.
			decide = func(*tx) error { return nil }
			t.locks = nil
			continue
		}
		if n >= tries && !waitloop.Sleep(ctx, rand.N(time.Duration(min(n, 20))*time.Millisecond)) {
			return t, ctx.Err()
		}
	}
}

// decide changes the locks in memory, and reports whether there is anything to write.
func (t *tx) decide(decide func(*tx) error) (changed bool, err error) {
	t.more, t.also, t.names = false, nil, nil
	for _, l := range t.locks {
		t.step(l) // a lease may have ended since the last look
	}
	if err := decide(t); err != nil {
		return false, err
	}
	for _, l := range t.locks {
		t.step(l)
		changed = changed || l.decided || len(l.removed) > 0 || slices.ContainsFunc(l.members, func(m *member) bool { return m.changed })
	}
	return changed || len(t.also) > 0, nil
}

// step lets those in whose turn it is.
func (t *tx) step(l *lock) {
	// Each costs two operations, and a decision has two steps for each lock.
	most := max(1, 32/len(t.locks))
	if l.record != nil {
		for _, w := range l.waiters() { // they ask, and get the record (L2)
			if w.Once && most > 0 {
				l.remove(w)
				most--
			}
		}
	}
	if most == 0 {
		t.more = true
		return
	}
	p, waiters := l.read()
	step := p.Step(time.Time{}, most)
	for n, i := range step.Granted {
		m := waiters[i]
		t.enter(l, m)
		m.Others = n+1 < len(waiters)
	}
	if len(step.Granted) > 0 {
		l.setPhase(step.Phase)
		l.sort()
	}
	t.more = t.more || step.More
}

// attach has another lease of etcd keep m, with set claims of the owner in all.
func (t *tx) attach(m *member, l *lease, set int) {
	m.lease, m.Lease, m.Set = l.id, int64(l.ttl/time.Second), set
	m.attached, m.changed = true, true
	t.names = append(t.names, l)
}

// enter makes m a holder under a token of its own.
func (t *tx) enter(l *lock, m *member) {
	now := time.Now()
	m.Token, m.Reserved = driver.NextTokens(l.Last, now, m.Reserved)
	t.s.compareClocks(l.key, l.Last, now)
	l.Last = m.Token + m.Reserved
	m.Since = now.UnixMicro()
	m.changed, l.decided = true, true
}

// compareClocks logs once that tokens are far ahead of this process's clock.
func (s *Store) compareClocks(key string, last uint64, now time.Time) {
	ahead := time.UnixMicro(int64(last)).Sub(now)
	if ahead > time.Minute && s.ahead.CompareAndSwap(false, true) {
		s.cfg.log.Warn("etcdstore: this machine's clock is behind that of another one, or was set back; tokens follow the clock", "key", key, "by", ahead)
	}
}

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
// does, and it must be possible: the waiters take over by themselves when the space is back.
func (t *tx) commitDeletes(cmps []clientv3.Cmp, puts []clientv3.Op, keys []string, full error) (done bool, err error) {
	for _, l := range t.locks {
		for _, m := range l.members {
			if m.changed && !m.waits() && m.mod == 0 || m.attached {
				return false, full
			}
		}
	}
	if len(t.also) > 0 {
		return false, full
	}
	var deletes []clientv3.Op
	for _, op := range puts {
		if op.IsDelete() {
			deletes = append(deletes, op)
		}
	}
	if len(deletes) == 0 {
		return false, full
	}
	r, err := t.s.client.Txn(t.ctx).If(cmps...).Then(deletes...).Else(t.s.questions(keys)...).Commit()
	if err != nil {
		return false, err
	}
	t.s.views.forget(keys)
	t.more = false
	if !r.Succeeded {
		return false, t.see(r, keys)
	}
	return true, nil
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
		if !l.decided {
			continue
		}
		cmps = append(cmps,
			clientv3.Compare(clientv3.ModRevision(base+lockPart), "=", l.mod),
			clientv3.Compare(clientv3.ModRevision(base+memberPart), "<", l.rev+1).WithRange(base+membersEnd))
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
	if age := now.Sub(time.Unix(l.At, 0)); l.mod == 0 || age > lockMoves || age < -lockMoves {
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
		decided := l.decided
		l.decided, l.removed = false, nil
		if !decided {
			// Others may have joined the queue since l was read.
			t.s.views.forget([]string{l.key})
			continue
		}
		l.mod, l.rev = rev, rev
		t.s.views.keep(l)
	}
}

// recall begins with what the store remembers. A key that it does not know is thought to be unused.
func (t *tx) recall(keys []string) {
	for _, key := range keys {
		l := t.s.views.get(key)
		if l == nil {
			l = &lock{key: key}
		}
		t.locks = append(t.locks, l)
	}
}

// load reads the locks.
func (t *tx) load(keys []string) error {
	r, err := t.s.client.Txn(t.ctx).Then(t.s.questions(keys)...).Commit()
	if err != nil {
		return err
	}
	return t.see(r, keys)
}

// questions ask for the locks of keys and their records.
func (s *Store) questions(keys []string) []clientv3.Op {
	ops := make([]clientv3.Op, 0, 2*len(keys))
	for _, key := range keys {
		base := s.base(key)
		ops = append(ops, clientv3.OpGet(base+lockPart, clientv3.WithRange(base+membersEnd)), clientv3.OpGet(base+recordPart))
	}
	return ops
}

// see takes the answers to questions.
func (t *tx) see(r *clientv3.TxnResponse, keys []string) error {
	t.fresh, t.term = true, r.Header.RaftTerm
	t.locks = make([]*lock, len(keys))
	for i, key := range keys {
		l, err := t.s.readLock(key, r.Responses[2*i].GetResponseRange().Kvs, r.Responses[2*i+1].GetResponseRange().Kvs)
		if err != nil {
			return err
		}
		l.rev = r.Header.Revision
		t.locks[i] = l
	}
	return nil
}

// readLock makes a lock of its keys.
func (s *Store) readLock(key string, kvs, records []*mvccpb.KeyValue) (*lock, error) {
	l := &lock{key: key}
	base := s.base(key)
	for _, kv := range kvs {
		part := strings.TrimPrefix(string(kv.Key), base)
		if part == lockPart {
			l.mod = kv.ModRevision
			if err := json.Unmarshal(kv.Value, &l.lockValue); err != nil {
				return nil, fmt.Errorf("etcdstore: %s: %w", kv.Key, err)
			}
			continue
		}
		owner, ok := strings.CutPrefix(part, memberPart)
		if !ok {
			continue
		}
		m, err := readMember(kv, owner)
		if err != nil {
			return nil, err
		}
		l.members = append(l.members, m)
	}
	for _, kv := range records {
		rec, err := readRecord(kv)
		if err != nil {
			return nil, err
		}
		l.record = rec
	}
	l.sort()
	return l, nil
}

// lock returns the lock of one of the transaction's keys.
func (t *tx) lock(key string) *lock {
	i, _ := slices.BinarySearchFunc(t.locks, key, func(l *lock, key string) int { return strings.Compare(l.key, key) })
	return t.locks[i]
}
