package zkstore

import (
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/keystate"
)

// op is an operation of a request that is carried out as a whole or not at all.
type op = any

// write sends what the transaction has changed. A lock whose holders change is always written, too,
// so that two decisions about it never meet, and waiters look. Those who come, renew their leases or give
// up do not write it: they are in nobody's way.
func (t *tx) write() (sent bool, err error) {
	var ops []op
	for _, l := range t.locks {
		ops = append(ops, t.opsOf(l)...)
	}
	ops = slices.Concat(ops, t.notes(), t.extra)
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
				if err := t.s.makeNode(t.p, path.Dir(l.path), zk.FlagPersistent); err != nil {
					return false, err
				}
			}
		}
	}
	return true, err
}

// opsOf returns what has to be written of a lock.
func (t *tx) opsOf(l *lock) []op {
	var members []op // those that stay or come
	decided := l.touched
	for _, m := range slices.Concat(l.Holders(), l.Waiters()) {
		ops, decides := t.opsOn(l, m)
		members = append(members, ops...)
		decided = decided || decides
	}
	var gone []op
	for _, name := range l.nodes.stray {
		gone = append(gone, &zk.DeleteRequest{Path: l.path + "/" + name, Version: -1})
	}
	for _, n := range l.all {
		if n.keeps {
			continue
		}
		version := int32(-1)
		if !n.waits {
			version, decided = n.stat.Version, true // a renewal meanwhile wins
		}
		gone = append(gone, &zk.DeleteRequest{Path: l.path + "/" + n.name, Version: version})
	}
	var ops []op
	switch {
	case !l.exists && (decided || len(members) > 0):
		ops = append(ops, &zk.CreateRequest{Path: l.path, Data: encode(l.data()), Acl: t.s.cfg.acl})
	case l.exists && (decided || l.data() != l.was):
		l.writes = true
		ops = append(ops, &zk.SetDataRequest{Path: l.path, Data: encode(l.data()), Version: l.version})
	}
	return slices.Concat(ops, gone, members)
}

// opsOn returns what has to be written of a member, and whether waiters have to look: it makes somebody a
// holder, or its owner has released it, so it ends sooner than they have seen.
func (t *tx) opsOn(l *lock, m *keystate.Member) (ops []op, decided bool) {
	n, data := nodeOf(m), t.dataOf(m)
	switch {
	case n == nil && m.Waits: // the server gives it its number
		return []op{&zk.CreateRequest{
			Path: l.path + "/" + waiterName(nodeID(m.Owner), m), Data: encode(data), Acl: t.s.cfg.acl, Flags: zk.FlagEphemeralSequential,
		}}, false
	case n == nil || n.waits && !m.Waits:
		return []op{&zk.CreateRequest{Path: l.path + "/" + holderNode + nodeID(m.Owner), Data: encode(data), Acl: t.s.cfg.acl}}, true
	case n.waits:
		n.keeps = true
		return nil, false
	}
	path := l.path + "/" + n.name
	n.keeps = true
	switch {
	case m.Since.UnixMicro() != n.stat.Ctime*1000: // made anew, so that it counts as granted now
		return []op{
			&zk.DeleteRequest{Path: path, Version: n.stat.Version},
			&zk.CreateRequest{Path: path, Data: encode(data), Acl: t.s.cfg.acl},
		}, true
	case m.Extended || data != n.data:
		return []op{&zk.SetDataRequest{Path: path, Data: encode(data), Version: n.stat.Version}}, m.Released && !n.data.Released
	}
	return nil, false
}

// notes are the operations about a record and about leases that were taken by force.
func (t *tx) notes() (ops []op) {
	put := func(path string, exists bool, data []byte) {
		if exists {
			ops = append(ops, &zk.SetDataRequest{Path: path, Data: data, Version: -1})
		} else {
			ops = append(ops, &zk.CreateRequest{Path: path, Data: data, Acl: t.s.cfg.acl})
		}
	}
	for _, l := range t.locks {
		if rec := l.Record; rec != nil && rec != l.record {
			put(l.path+"/"+recordNode, l.nodes.record, encodeRecord(rec, toMicros(rec.Until.Sub(t.Now))))
		}
		for _, f := range t.Forced {
			if name := forcedNode + nodeID(f.Owner); f.Key == l.Name {
				put(l.path+"/"+name, slices.Contains(l.nodes.forced, name), encode(forcedData{Token: f.Token, Reason: f.Reason}))
			}
		}
	}
	return ops
}
