package zkstore

import (
	"errors"

	"github.com/go-zookeeper/zk"
)

// op is an operation of a request that is carried out as a whole or not at all.
type op = any

// write sends what the transaction has changed. A lock whose holders change is always written, too,
// so that two decisions about it never meet. Those who come, renew their leases or give up do not
// write it: they are in nobody's way.
func (t *tx) write() (sent bool, err error) {
	var ops []op
	for _, l := range t.locks {
		ops = append(ops, t.opsOf(l)...)
	}
	ops = append(ops, t.extra...)
	if len(ops) == 0 {
		return false, nil
	}
	res, err := t.p.Multi(ops...)
	for _, r := range res {
		t.p.clock.note(r.Stat)
	}
	if err == nil {
		t.remember(res)
	}
	if errors.Is(err, zk.ErrNoNode) {
		for _, l := range t.locks {
			if !l.exists {
				if err := t.s.makeBucket(t.p, l.key); err != nil {
					return false, err
				}
			}
		}
	}
	return true, err
}

// opsOf returns what has to be written of a lock.
func (t *tx) opsOf(l *lock) []op {
	acl := t.s.cfg.acl
	var ops []op
	switch {
	case !l.exists && (l.altered || len(l.Members) > 0):
		ops = append(ops, &zk.CreateRequest{Path: l.path, Data: encode(l.data()), Acl: acl})
	case l.exists && l.writes():
		ops = append(ops, &zk.SetDataRequest{Path: l.path, Data: encode(l.data()), Version: l.version})
	}
	for _, node := range l.nodes.stray {
		ops = append(ops, &zk.DeleteRequest{Path: l.path + "/" + node, Version: -1})
	}
	for _, m := range l.removed {
		version := int32(-1)
		if !m.waits {
			version = m.stat.Version // a renewal meanwhile wins
		}
		ops = append(ops, &zk.DeleteRequest{Path: l.path + "/" + m.node, Version: version})
	}
	for _, m := range l.Members {
		ops = append(ops, t.opsOn(l, m)...)
	}
	return ops
}

// opsOn returns what has to be written of a member.
func (t *tx) opsOn(l *lock, m *member) []op {
	acl := t.s.cfg.acl
	m.Mode, m.Permits = m.mode, m.permits
	path := l.path + "/" + m.node
	switch {
	case m.node == "":
		return []op{&zk.CreateRequest{Path: l.path + "/" + holderNode + m.id, Data: encode(m.memberData), Acl: acl}}
	case m.anew:
		return []op{
			&zk.DeleteRequest{Path: path, Version: m.stat.Version},
			&zk.CreateRequest{Path: path, Data: encode(m.memberData), Acl: acl},
		}
	case m.changed:
		return []op{&zk.SetDataRequest{Path: path, Data: encode(m.memberData), Version: m.stat.Version}}
	}
	return nil
}
