package zkstore

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/keystate"
)

// node is a node of a holder or a waiter, as it was read.
type node struct {
	name string
	id   string // of its owner, in the names of nodes
	stat *zk.Stat
	// data is what the node holds. Of a waiter it is what the name says, until it was asked for.
	data  memberData
	waits bool
	once  bool   // a waiter that also takes a record
	nr    uint64 // of a waiter: order of arrival
	keeps bool   // it stays after the decision
}

// lock is a key with its nodes, as they were read.
type lock struct {
	*keystate.Key
	path    string
	exists  bool
	version int32
	was     lockData
	nodes   children
	all     []*node          // of holders and waiters
	record  *keystate.Record // nil also if nobody asked for it
	touched bool             // its node is written, although nobody comes or goes
	writes  bool             // the lock's own node is written, so its version rises
}

// data is what the node of the lock should hold.
func (l *lock) data() lockData {
	return lockData{Last: l.Last, Mode: l.Mode, Through: l.Through}
}

// member makes m a member of a node, as of now.
func (n *node) member(m *keystate.Member, now moment) *keystate.Member {
	*m = keystate.Member{Ref: n, Waits: n.waits, Once: n.once, Arrived: n.nr}
	if n.waits {
		m.Owner = n.name // until its node is read
	}
	n.fill(m)
	if n.stat != nil {
		m.Since = time.UnixMicro(n.stat.Ctime * 1000)
		if !n.waits {
			m.Until = time.UnixMicro(now.ends(n.stat, n.data.Term))
		}
	}
	return m
}

// fill gives m what its node holds.
func (n *node) fill(m *keystate.Member) {
	d := n.data
	if d.Owner != "" {
		m.Owner = d.Owner
	}
	m.Mode, m.Permits, m.Token, m.Reserved = d.Mode, d.Permits, d.Token, d.Reserved
	m.TTL, m.Partial, m.Released = fromMicros(d.TTL), d.Partial, d.Released
	m.Linger, m.Inbox, m.Rule, m.Trace = d.Inbox != "", d.Inbox, d.Rule, d.Trace
}

// dataOf is what the node of m should hold.
func (t *tx) dataOf(m *keystate.Member) memberData {
	d := memberData{
		Owner: m.Owner, Mode: m.Mode, Permits: m.Permits, Token: m.Token, Reserved: m.Reserved, TTL: toMicros(m.TTL),
		Partial: m.Partial, Released: m.Released, Inbox: m.Inbox, Rule: m.Rule, Trace: m.Trace,
	}
	if n := nodeOf(m); n != nil && !n.waits && !m.Extended {
		d.Term = n.data.Term
	} else if !m.Waits {
		d.Term = toMicros(m.Until.Sub(t.Now))
	}
	return d
}

// nodeOf returns the node of m; nil: it has none yet.
func nodeOf(m *keystate.Member) *node {
	n, _ := m.Ref.(*node)
	return n
}

// mostLetIn is how many waiters one decision lets in.
const mostLetIn = 64

// rules are what ZooKeeper adds to decisions: all grants leave in one request, whose size is bounded.
func (s *Store) rules() *keystate.Rules {
	return &keystate.Rules{Term: s.cfg.claimTime(), Most: mostLetIn}
}
