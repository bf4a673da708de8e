package zkstore

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// The short way: a lock that this process has decided about last needs no reading. One request takes
// it, or gives it back, and is refused if anybody has decided about it since.

const (
	// freshFor is how long a process believes that a lock is as it left it. A lock that was deleted
	// and made anew counts its versions from 0 again, and might come to the one that the process
	// remembers. So this is much shorter than the time for which an idle lock is kept (leastIdle),
	// and a session does not outlast a pause of that length.
	freshFor  = 10 * time.Second
	leastIdle = time.Minute
	// mostCached bounds the memory that the short way needs.
	mostCached = 10000
)

// cachedLock is a lock that is free, with nobody in the queue, or has one exclusive holder of this
// process.
type cachedLock struct {
	version int32
	data    lockData
	holder  string // the id of its owner; "": it is free, and was so at the moment at
	token   uint64
	at      time.Time
	until   time.Time // the holder's lease is in force for so long at least
	node    zk.Stat   // of its node: the version, which another process's renewal changes, and the last stamp
	member  memberData
}

// renewed notes how long a lease is in force at least, and what its node is like.
func (p *peer) renewed(key string, n *node, until time.Time, stat *zk.Stat) {
	if l, ok := p.cache.Get(key); ok && l.holder == n.id && l.token == n.data.Token {
		l.until, l.node, l.member = until, *stat, n.data
		p.cache.Put(key, l) // if it was released meanwhile, the next request for it meets another version, and reads
	}
}

// lease returns the node of a lease as this process wrote it last, if that is known.
func (p *peer) lease(key, id string, token uint64) (*node, bool) {
	l, ok := p.cache.Get(key)
	if !ok || l.holder != id || l.token != token || l.node.Mzxid == 0 || !time.Now().Before(l.until) {
		return nil, false
	}
	return &node{id: id, name: holderNode + id, data: l.member, stat: &l.node}, true
}

// remember notes what a transaction has left behind.
func (t *tx) remember(res []zk.MultiResponse) {
	for _, l := range t.locks {
		t.p.cache.Drop(l.Name)
	}
	if len(t.locks) != 1 || t.records || len(res) == 0 {
		return
	}
	l := t.locks[0]
	holders := l.Holders()
	if len(holders) != 1 || l.Waiting() > 0 || holders[0].Mode != driver.ModeExclusive || holders[0].Released {
		return
	}
	h, left := holders[0], zk.Stat{}
	for _, r := range res { // all have the stamp of the transaction
		if r.Stat != nil {
			left.Mtime, left.Mzxid = r.Stat.Mtime, r.Stat.Mzxid
		}
	}
	if n := nodeOf(h); n != nil && n.keeps {
		if !h.Extended {
			return // it was renewed by somebody at some time
		}
		left.Version = n.stat.Version + 1
	}
	version := l.version // 0 of one that was made
	if l.writes {
		version++
	}
	data := t.dataOf(h)
	t.p.cache.Put(l.Name, cachedLock{
		version: version, data: l.data(), holder: nodeID(h.Owner), token: h.Token, until: t.sent.Add(fromMicros(data.Term)),
		node: left, member: data,
	})
}

// isPlain reports whether claims are one exclusive claim.
func isPlain(claims []driver.Claim) bool {
	return len(claims) == 1 && claims[0].Mode == driver.ModeExclusive
}

// short takes a lock that this process has left free. unsure says that it may have done so although
// it failed.
func (a *acquisition) short(ctx context.Context) (g driver.Grant, ok, unsure bool) {
	key := a.Claims[0].Key
	p, err := a.s.link.get(ctx, a.s.patience(a.Wait))
	if err != nil {
		return g, false, false
	}
	l, ok := p.cache.Get(key)
	now, known := p.clock.now()
	if !ok || l.holder != "" || time.Since(l.at) > freshFor || !known {
		return g, false, false
	}
	k := &keystate.Key{Name: key, Last: l.data.Last, Phase: keystate.Phase{Mode: l.data.Mode, Through: l.data.Through}}
	t := &tx{
		State: keystate.State{Now: time.UnixMicro(now.now), Keys: []*keystate.Key{k}}, s: a.s, p: p, sent: time.Now(),
		locks: []*lock{{Key: k, path: a.s.lockPath(key), exists: true, version: l.version, was: l.data}},
	}
	ans, err := t.Acquire(&a.Request) // a free key is granted
	if err == nil {
		_, err = t.write()
	}
	if err != nil {
		p.cache.Drop(key)
		return g, false, isBroken(err)
	}
	return a.Grant(ans, t.sent), true, false
}

// shortRelease gives back a lease that nobody waited for when it was granted.
func (s *Store) shortRelease(ctx context.Context, g driver.Grant) (done, unsure bool) {
	if g.MinHold > 0 {
		return false, false
	}
	p, err := s.link.get(ctx, patience)
	if err != nil {
		return false, false
	}
	key := g.Claims[0].Key
	l, ok := p.cache.Get(key)
	if !ok || l.holder != nodeID(g.Owner) || l.token != g.Token || !time.Now().Before(l.until) {
		return false, false
	}
	path := s.lockPath(key)
	res, err := p.Multi(
		&zk.DeleteRequest{Path: path + "/" + holderNode + l.holder, Version: l.node.Version},
		&zk.SetDataRequest{Path: path, Data: encode(l.data), Version: l.version},
	)
	p.cache.Drop(key)
	if err != nil || len(res) != 2 {
		return false, isBroken(err)
	}
	stat := res[1].Stat
	p.clock.note(stat)
	if stat.NumChildren == 0 {
		p.cache.Put(key, cachedLock{version: stat.Version, data: l.data, at: time.Now()})
		return true, false
	}
	// Somebody has come since the grant. The first waiter notices by itself, unless it is dead.
	_, _ = s.decide(ctx, casstore.Aim{Keys: []string{key}}, (*keystate.State).Settle)
	return true, false
}
