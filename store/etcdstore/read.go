package etcdstore

import (
	"encoding/json"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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
			l.was = string(kv.Value)
			if err := json.Unmarshal(kv.Value, &l.lockValue); err != nil {
				return nil, foreign(kv, err)
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
		if m.lease == clientv3.NoLease {
			// Somebody has written it by hand. Nothing would end it, so it counts as deleted.
			l.removed, l.freed = append(l.removed, m), true
			continue
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
	l.members.Sort()
	return l, nil
}
