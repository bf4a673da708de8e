package etcdstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/internal/keystate"
)

// view is a lock with everybody who holds it or waits for it, as of a revision of etcd. A member whose lease
// has run out is not in etcd any more. Nobody changes a view.
type view struct {
	lockValue
	key     string
	was     string           // the value of the lock's own key; "": there is none
	rev     int64            // no member was written after it
	entries []*entry         // the members: holders in the order of their tokens, and waiters in that of their arrival
	strays  []*entry         // members without a lease, written by hand. Nothing would end them, so they count as deleted
	record  *keystate.Record // nil: none is in force, or nobody has looked
	keeps   clientv3.LeaseID // keeps the record
	// read are the members as they were last read, in the order of their owners: what has not changed
	// needs not be decoded again.
	read []*entry
}

// lock is a view that a decision changes.
type lock struct {
	*keystate.Key
	seen  *view
	nodes []node // of the entries, in their order
}

// node is a member with what etcd has of it.
type node struct {
	keystate.Member
	was     *entry
	remains bool // after the decision
}

// lock makes a lock of a view.
func (v *view) lock() *lock {
	l := &lock{
		Key:  &keystate.Key{Name: v.key, Phase: keystate.Phase{Mode: v.Mode, Through: v.Through}, Last: v.Last, Record: v.record},
		seen: v, nodes: make([]node, len(v.entries)),
	}
	for i, e := range v.entries {
		n := &l.nodes[i]
		n.was, n.Member = e, e.member()
		n.Ref = n
		l.Add(&n.Member)
	}
	return l
}

// read reads the locks of keys. term is that of raft at that moment; 0: there were two.
func (s *Store) read(ctx context.Context, keys []string) (views []*view, term uint64, err error) {
	for some := range slices.Chunk(keys, keysPerRead) {
		r, err := s.client.Txn(ctx).Then(s.questions(some)...).Commit()
		if err != nil {
			return nil, 0, err
		}
		seen, err := s.viewsOf(r, some)
		if err != nil {
			return nil, 0, err
		}
		if views != nil && term != r.Header.RaftTerm {
			r.Header.RaftTerm = 0
		}
		views, term = append(views, seen...), r.Header.RaftTerm
	}
	return views, term, nil
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

// viewsOf takes the answers to questions.
func (s *Store) viewsOf(r *clientv3.TxnResponse, keys []string) ([]*view, error) {
	views := make([]*view, len(keys))
	for i, key := range keys {
		v, err := s.viewOf(key, r.Responses[2*i].GetResponseRange().Kvs, r.Responses[2*i+1].GetResponseRange().Kvs)
		if err != nil {
			return nil, err
		}
		v.rev = r.Header.Revision
		views[i] = v
	}
	return views, nil
}

// viewOf makes a view of a lock's keys.
func (s *Store) viewOf(key string, kvs, records []*mvccpb.KeyValue) (v *view, err error) {
	v = &view{key: key}
	known := s.recall(key).read
	base := s.base(key)
	for _, kv := range kvs {
		part := strings.TrimPrefix(string(kv.Key), base)
		if part == lockPart {
			v.was = string(kv.Value)
			if err := json.Unmarshal(kv.Value, &v.lockValue); err != nil {
				return nil, foreign(kv, err)
			}
			continue
		}
		owner, ok := ownerOf(part)
		if !ok {
			continue
		}
		for len(known) > 0 && known[0].owner < owner {
			known = known[1:]
		}
		var e *entry
		if len(known) > 0 && known[0].owner == owner && known[0].isIn(kv) {
			e = known[0]
		} else if e, err = readEntry(kv, owner); err != nil {
			return nil, err
		}
		v.read = append(v.read, e)
		if e.lease == clientv3.NoLease {
			v.strays = append(v.strays, e)
		} else {
			v.entries = append(v.entries, e)
		}
	}
	for _, kv := range records {
		rec, err := readRecord(kv)
		if err != nil {
			return nil, err
		}
		v.record, v.keeps = rec, clientv3.LeaseID(kv.Lease)
	}
	v.sort()
	return v, nil
}

// sort brings the entries in order. The mode is that of the holders: the lock's own key may be lost, because
// it is kept for a day only.
func (v *view) sort() {
	slices.SortFunc(v.entries, func(a, b *entry) int {
		if a.waits() != b.waits() {
			if b.waits() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.create, b.create))
	})
	if len(v.entries) > 0 && !v.entries[0].waits() {
		v.Mode = v.entries[0].Mode
	}
}

// mostViews bounds the memory of a process that uses each key once.
const mostViews = 4096

// recall returns the view of key as this store has last written or read it. A decision that begins with it saves
// reading. It compares that nobody else has written the lock since; if somebody has, it reads. A key that the store does
// not know is thought to be unused.
func (s *Store) recall(key string) *view {
	if known, ok := s.views.Get(key); ok {
		return known
	}
	return &view{key: key}
}

// saw remembers views that were read, unless there are younger ones.
func (s *Store) saw(all []*view) {
	for _, w := range all {
		if s.recall(w.key).rev > w.rev {
			continue
		}
		without := *w
		without.record = nil // it may end at any time
		s.views.Put(w.key, &without)
	}
}
