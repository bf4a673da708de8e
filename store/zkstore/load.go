package zkstore

import (
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// load reads the locks.
func (t *tx) load(keys []string) error {
	if t.synced {
		if _, err := t.p.Sync(t.s.cfg.root); err != nil {
			return err
		}
	}
	t.locks = make([]*lock, len(keys))
	err := casstore.Parallel(len(keys), func(i int) (err error) {
		t.locks[i], err = t.loadOne(keys[i])
		return err
	})
	if err != nil {
		return err
	}
	now, known := t.p.clock.now()
	if t.looks && t.s.onlyLooks.Load() {
		now = moment{now: time.Now().UnixMicro()} // by this process's clock, which is good enough for what is only shown
	} else if !known || t.doubts(now) {
		// A lease is over only by a stamp that is younger than what was read: the leader's clock may
		// have been set back, and there may be a new leader.
		if now, err = t.s.tick(t.p); err != nil {
			return err
		}
	}
	t.now = now
	t.State = keystate.State{Now: time.UnixMicro(now.now), Rules: t.s.rules(), Complete: t.complete}
	id := nodeID(t.owner)
	for _, l := range t.locks {
		members := make([]keystate.Member, len(l.all))
		for i, n := range l.all {
			m := n.member(&members[i], now)
			if n.waits && n.id == id {
				m.Owner = t.owner
			}
			l.Add(m)
		}
		l.Record = l.record
		t.Keys = append(t.Keys, l.Key)
	}
	return nil
}

// doubts reports whether one of the leases is in doubt.
func (t *tx) doubts(now moment) bool {
	for _, l := range t.locks {
		for _, n := range l.all {
			if !n.waits && now.doubts(n) {
				return true
			}
		}
	}
	return false
}

// loadOne reads one lock as of one version.
func (t *tx) loadOne(key string) (*lock, error) {
	l := &lock{Key: &keystate.Key{Name: key}, path: t.s.lockPath(key)}
	var (
		names          []string
		data           []byte
		listed, stat   *zk.Stat
		noNode, noList bool
	)
	err := casstore.Parallel(2, func(i int) (err error) {
		if i == 0 {
			if names, listed, err = t.p.Children(l.path); errors.Is(err, zk.ErrNoNode) {
				noList, err = true, nil
			}
			return err
		}
		if data, stat, err = t.p.Get(l.path); errors.Is(err, zk.ErrNoNode) {
			noNode, err = true, nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case noNode && noList:
		return l, nil
	case noNode != noList, listed.Version != stat.Version, listed.Czxid != stat.Czxid:
		return nil, errConflict
	}
	if err := decode(l.path, data, &l.was); err != nil {
		return nil, err
	}
	l.exists, l.version, l.Last = true, stat.Version, l.was.Last
	l.Phase = keystate.Phase{Mode: l.was.Mode, Through: l.was.Through}
	l.nodes = parseChildren(names)
	holders := make([]*node, len(l.nodes.holders))
	n := len(holders)
	if l.nodes.record && (t.records || slices.ContainsFunc(l.nodes.waiters, func(n *node) bool { return n.once })) {
		n++
	}
	err = casstore.Parallel(n, func(i int) (err error) {
		if i == len(holders) {
			l.record, err = t.s.record(t.p, l.path)
			return err
		}
		holders[i], err = holder(t.p, l.path, l.nodes.holders[i])
		if errors.Is(err, zk.ErrNoNode) && l.was.Mode != driver.ModeExclusive {
			err = nil // it has left, which was no decision
		}
		return err
	})
	l.all = slices.DeleteFunc(holders, func(n *node) bool { return n == nil })
	l.all = append(l.all, l.nodes.waiters...)
	return l, err
}

// holder reads the node of a holder.
func holder(p *peer, lock, name string) (*node, error) {
	path := lock + "/" + name
	data, stat, err := p.Get(path)
	if err != nil {
		return nil, err
	}
	n := &node{id: name[len(holderNode):], name: name, stat: stat}
	return n, decode(path, data, &n.data)
}
