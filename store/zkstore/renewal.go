package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// renewal is a batch of leases that are renewed together.
type renewal struct {
	s        *Store
	grants   []driver.Grant
	verdicts []error
	done     []bool
	again    map[int]bool // the grants whose nodes have changed since they were read
}

// run renews all leases of the batch that are still their owners'. The leases whose nodes changed
// after they were read are read again, and the others do not wait for them.
func (r *renewal) run(ctx context.Context) {
	synced := false
	for tries := (retries{}); slices.Contains(r.done, false); synced = true { // what seems to be lost was perhaps not read from the latest state
		p, err := r.s.link.get(ctx, patience)
		if err == nil {
			err = r.attempt(p, synced)
		}
		if err == nil || tries.again(ctx, err) {
			continue
		}
		// Leases that have an answer keep it. The others fail with err.
		for n, done := range r.done {
			if !done {
				r.verdicts[n], r.done[n] = r.s.failure("renew", r.grants[n].Claims[0].Key, err), true
			}
		}
	}
}

// lease is a node of a holder, as it is renewed.
type lease struct {
	n   int // the grant
	key string
	*node
	refused error  // why the node could not be read, which concerns this grant alone (N4)
	over    micros // the end that it had, in the epoch of its stamp
}

// attempt reads all leases that are not done, and renews them.
func (r *renewal) attempt(p *peer, synced bool) error {
	if synced {
		if _, err := p.Sync(r.s.cfg.root); err != nil {
			return err
		}
	}
	var all []*lease
	for n, g := range r.grants {
		for _, c := range g.Claims {
			if !r.done[n] {
				all = append(all, &lease{n: n, key: c.Key})
			}
		}
	}
	err := casstore.Parallel(len(all), func(i int) error { return r.read(p, all[i], synced) })
	if err != nil {
		return err
	}
	if all, err = r.judge(p, all, synced); err != nil {
		return err
	}
	r.again = make(map[int]bool)
	for chunk := range slices.Chunk(all, claimsPerRenewal) {
		if err := r.write(p, chunk); err != nil {
			return err
		}
	}
	for n := range r.done {
		r.done[n] = r.done[n] || !r.again[n]
	}
	return nil
}

// read reads the node of a lease, unless this process knows it. A lease without a node has none. If
// what the process knows is no longer so, the write fails, and the next attempt reads.
func (r *renewal) read(p *peer, l *lease, synced bool) (err error) {
	g := r.grants[l.n]
	if !synced && !g.Borrowed {
		if m, ok := p.lease(l.key, nodeID(g.Owner), g.Token); ok {
			l.node = m
			return nil
		}
	}
	l.node, err = holder(p, r.s.lockPath(l.key), holderNode+nodeID(g.Owner))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		l.node, err = nil, nil
	case isRefusal(err):
		l.node, l.refused, err = nil, err, nil
	}
	return err
}

// judge returns the leases to write. It notes the grants that are lost, those that can't be read, and those
// that need no renewal.
func (r *renewal) judge(p *peer, all []*lease, synced bool) ([]*lease, error) {
	now, known := p.clock.now()
	if !known || slices.ContainsFunc(all, func(l *lease) bool {
		return r.grants[l.n].Borrowed || l.node != nil && now.doubts(l.node)
	}) {
		var err error
		if now, err = r.s.tick(p); err != nil {
			return nil, err
		}
	}
	lost := make(map[int]string) // grants with the key that is lost
	for _, l := range all {
		if l.refused != nil {
			r.verdicts[l.n], r.done[l.n] = r.s.failure("renew", l.key, l.refused), true
			continue
		}
		g := r.grants[l.n]
		c := g.Claims[slices.IndexFunc(g.Claims, func(c driver.Claim) bool { return c.Key == l.key })]
		if _, known := lost[l.n]; !known && !renewable(l.node, g, c, now) {
			lost[l.n] = l.key
		}
	}
	if len(lost) > 0 && !synced {
		return nil, errConflict // a server that lags may have shown what is no longer true
	}
	for n, key := range lost {
		loss := keystate.Lost(&r.grants[n], key)
		if err := r.s.explain(p, r.grants[n].Owner, loss); err != nil {
			return nil, err
		}
		r.verdicts[n], r.done[n] = loss, true
	}
	var due []*lease
	for _, l := range all {
		g := r.grants[l.n]
		if r.done[l.n] {
			continue
		}
		l.over = now.ends(l.stat, l.data.Term)
		if g.Borrowed && l.over >= now.now+toMicros(g.TTL) {
			continue // its owner has more time than the borrower asks for (N7)
		}
		l.data.Term = toMicros(g.TTL)
		if !g.Borrowed {
			l.data.TTL = l.data.Term
		}
		due = append(due, l)
	}
	return due, nil
}

// renewable reports whether n is the lease on c that g describes.
func renewable(n *node, g driver.Grant, c driver.Claim, now moment) bool {
	return n != nil && now.ends(n.stat, n.data.Term) > now.now && keystate.Renewable(n.member(new(keystate.Member), now), &g, c)
}

// write renews leases with one request. If one of their nodes has changed, the others are renewed
// with the next request.
func (r *renewal) write(p *peer, leases []*lease) error {
	ops := make([]op, len(leases))
	for i, l := range leases {
		path := r.s.lockPath(l.key) + "/" + l.name
		ops[i] = &zk.SetDataRequest{Path: path, Data: encode(l.data), Version: l.stat.Version}
	}
	sent := time.Now()
	res, err := p.Multi(ops...)
	if isConflict(err) {
		return r.without(p, leases, res, err)
	}
	if err != nil {
		return err
	}
	if len(res) != len(leases) {
		return fmt.Errorf("zkstore: %d answers to %d operations", len(res), len(leases))
	}
	for i, l := range leases {
		p.clock.note(res[i].Stat)
		p.renewed(l.key, l.node, sent.Add(fromMicros(l.data.Term)), res[i].Stat)
		if !r.done[l.n] && epochOf(res[i].Stat.Mzxid) == epochOf(l.stat.Mzxid) && res[i].Stat.Mtime*1000 >= l.over {
			// It was over when the renewal arrived, and others may have seen that.
			r.verdicts[l.n], r.done[l.n] = keystate.Lost(&r.grants[l.n], l.key), true
			r.s.calls.Go(func() { r.s.drop(r.grants[l.n]) })
		}
	}
	return nil
}

// without renews leases except the one at fault, whose grant is for the next attempt.
func (r *renewal) without(p *peer, leases []*lease, res []zk.MultiResponse, err error) error {
	at := slices.IndexFunc(res, func(m zk.MultiResponse) bool { return m.Error != nil })
	if at < 0 || at >= len(leases) {
		return err
	}
	n := leases[at].n
	r.again[n] = true
	rest := slices.DeleteFunc(slices.Clone(leases), func(l *lease) bool { return l.n == n })
	if len(rest) == 0 {
		return nil
	}
	return r.write(p, rest)
}
