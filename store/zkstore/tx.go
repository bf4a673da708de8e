package zkstore

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
)

// tx is a decision about some keys. It reads all holders and waiters, has package keystate decide, and
// writes what has changed with one request, which is refused if anybody else has decided about one of the
// keys meanwhile.
type tx struct {
	keystate.State
	s     *Store
	p     *peer
	sent  time.Time // a moment before it began, by this process's clock
	now   moment    // a time that is not after the leader's
	locks []*lock   // of the keys

	looks   bool   // nothing is going to be decided
	synced  bool   // what was read is not older than the transaction
	records bool   // records are read, too
	owner   string // whose request it is
	extra   []op   // operations besides those on members
	after   func() // called once the decision was written
}

// decide is transact for a decision that needs nothing but the state of the keys.
func (s *Store) decide(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (unsure bool, err error) {
	return s.transact(ctx, a, func(t *tx) error { return decide(&t.State) })
}

// transact decides about keys, which are in order, and does so again if others were in the way or the
// connection broke. So decide must be such that doing it twice does no harm.
func (s *Store) transact(ctx context.Context, a casstore.Aim, decide func(*tx) error) (unsure bool, err error) {
	synced := a.Unsure
	unsure = a.Unsure
	for r := (retries{}); ; {
		p, err := s.link.get(ctx, s.patience(a.Waits))
		if err != nil {
			return unsure, err
		}
		t := &tx{s: s, p: p, sent: time.Now(), synced: synced, records: a.Records, owner: a.Owner}
		writing, err := t.attempt(a.Keys, decide)
		switch {
		case casstore.IsAnswer(err):
			if t.synced {
				return unsure, err
			}
			synced = true // a server that lags may have shown what is no longer true
			continue
		case err == nil && a.Looks && !writing && !t.synced:
			synced = true
			continue
		case err == nil:
			if t.after != nil {
				t.after()
			}
			if t.More {
				s.calls.Go(func() { s.stepLater(a.Keys) })
			}
			if t.Wanted != nil {
				s.send(*t.Wanted)
			}
			return unsure, nil
		}
		unsure = unsure || writing && isBroken(err)
		synced = true
		if !r.again(ctx, err) {
			return unsure, err
		}
	}
}

// patience is how long to wait for a session.
func (s *Store) patience(waits bool) time.Duration {
	if waits {
		return max(s.cfg.session, patience)
	}
	return patience
}

// stepLater lets those in for which one request had no room.
func (s *Store) stepLater(keys []string) {
	_, _ = s.decide(s.life, casstore.Aim{Keys: keys}, (*keystate.State).Settle) // otherwise they ask by themselves
}

// attempt is one try. writing: the request that writes was sent.
func (t *tx) attempt(keys []string, decide func(*tx) error) (writing bool, err error) {
	if err := t.load(keys); err != nil {
		return false, err
	}
	if err := decide(t); err != nil {
		return false, err
	}
	return t.write()
}

// complete reads the nodes of waiters.
func (t *tx) complete(k *keystate.Key, waiters []*keystate.Member) error {
	path := t.s.lockPath(k.Name)
	return casstore.Parallel(len(waiters), func(i int) error {
		m := waiters[i]
		n := nodeOf(m)
		if n == nil || n.stat != nil {
			return nil
		}
		data, stat, err := t.p.Get(path + "/" + n.name)
		if err != nil {
			return err
		}
		if err := decode(n.name, data, &n.data); err != nil {
			return err
		}
		n.stat, m.Since = stat, time.UnixMicro(stat.Ctime*1000)
		n.fill(m)
		return nil
	})
}

// explain finds out whether owner has lost a lease by force.
func (s *Store) explain(p *peer, owner string, loss *driver.LeaseLostError) error {
	path := s.lockPath(loss.Key) + "/" + forcedNode + nodeID(owner)
	data, stat, err := p.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	var f forcedData
	if err := decode(path, data, &f); err != nil {
		return err
	}
	now, _ := p.clock.now()
	if wallEnds(stat, toMicros(keystate.ReasonKept)) > now.now {
		keystate.Explain(loss, f.Token, f.Reason)
	}
	return nil
}
