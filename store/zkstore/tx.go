package zkstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/phasefair"
)

// tx is a decision about some keys. It reads all holders and waiters, changes them in memory, and
// writes what has changed with one request, which is refused if anybody else has decided about one
// of the keys meanwhile.
type tx struct {
	s     *Store
	ctx   context.Context
	p     *peer
	sent  time.Time // a moment before it began, by this process's clock
	now   moment    // a time that is not after the leader's
	locks []*lock   // in order of their keys

	looks   bool   // nothing is going to be decided
	synced  bool   // what was read is not older than the transaction
	records bool   // records are read, too
	granted int    // to waiters
	more    bool   // waiters are left whose turn it is
	extra   []op   // operations besides those on members
	after   func() // called once the decision was written
}

// aim says what a transaction is about.
type aim struct {
	keys    []string
	records bool
	// looks: the answer depends on what was read even if nothing is written, so it must not be older
	// than the question.
	looks bool
	// unsure: the same request was sent before, and had no answer. What is read must not be older.
	unsure bool
	// patience is how long to wait for a session, if longer than usual.
	patience time.Duration
}

// clock is the leader's clock.
func (t *tx) clock() time.Time { return time.UnixMicro(t.now.now) }

// lock returns the lock of one of the transaction's keys.
func (t *tx) lock(key string) *lock {
	i := slices.IndexFunc(t.locks, func(l *lock) bool { return l.key == key })
	return t.locks[i]
}

// transact decides about keys, which are in order, and does so again if others were in the way or the
// connection broke.
//
// unsure says that an earlier attempt may have been carried out: it had no answer. So decide must be
// such that doing it twice does no harm.
func (s *Store) transact(ctx context.Context, a aim, decide func(*tx) error) (unsure bool, err error) {
	synced := a.unsure
	unsure = a.unsure
	for r := (retries{}); ; {
		p, err := s.link.get(ctx, max(a.patience, patience))
		if err != nil {
			return unsure, err
		}
		t := &tx{s: s, ctx: ctx, p: p, sent: time.Now(), synced: synced, records: a.records}
		writing, err := t.attempt(a.keys, decide)
		var v verdict
		switch {
		case errors.As(err, &v):
			if t.synced {
				return unsure, err
			}
			synced = true // a server that lags may have shown what is no longer true
			continue
		case err == nil && a.looks && !writing && !t.synced:
			synced = true
			continue
		case err == nil:
			if t.after != nil {
				t.after()
			}
			if t.more {
				s.calls.Go(func() { s.stepLater(a.keys) })
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

// stepLater lets those in for which one request had no room.
func (s *Store) stepLater(keys []string) {
	_, _ = s.transact(s.life, aim{keys: keys}, func(*tx) error { return nil }) // otherwise they ask by themselves
}

// attempt is one try. writing: the request that writes was sent.
func (t *tx) attempt(keys []string, decide func(*tx) error) (writing bool, err error) {
	if err := t.load(keys); err != nil {
		return false, err
	}
	for _, l := range t.locks { // a lease may have ended since the last look
		if err := t.step(l); err != nil {
			return false, err
		}
	}
	if err := decide(t); err != nil {
		return false, err
	}
	for _, l := range t.locks {
		if err := t.step(l); err != nil {
			return false, err
		}
	}
	return t.write()
}

// step lets those in whose turn it is.
func (t *tx) step(l *lock) error {
	if t.more {
		return nil
	}
	if l.record != nil {
		t.tellRecord(l)
	}
	room := phasefair.MostPerStep - t.granted // all grants leave in one request, whose size is bounded
	if room <= 0 {
		t.more = t.more || len(l.Waiters()) > 0
		return nil
	}
	step := l.Step(room)
	t.granted += len(step.Granted)
	t.more = step.More
	l.Phase = step.Phase
	err := together(len(step.Granted), func(i int) error { return t.describe(l, step.Granted[i]) })
	for _, m := range step.Granted {
		t.enter(l, m, min(m.TTL, toMicros(t.s.cfg.claimTime())))
	}
	return err
}

// tellRecord takes those that also take a record out of the queue: that wakes them. The others wait
// on.
func (t *tx) tellRecord(l *lock) {
	told := 0
	for _, w := range l.Waiters() {
		if !w.once {
			continue
		}
		if told++; told > phasefair.MostPerStep {
			t.more = true
			return
		}
		l.remove(w)
	}
}

// describe reads the node of a waiter.
func (t *tx) describe(l *lock, m *member) error {
	if m.Owner != "" {
		return nil
	}
	path := l.path + "/" + m.node
	data, stat, err := t.p.Get(path)
	if err != nil {
		return err
	}
	if err := decode(path, data, &m.memberData); err != nil {
		return err
	}
	m.stat, m.since = stat, stat.Ctime*1000
	return nil
}

// load reads the locks. Leases that are over are taken out.
func (t *tx) load(keys []string) error {
	if t.synced {
		if _, err := t.p.Sync(t.s.cfg.root); err != nil {
			return err
		}
	}
	t.locks = make([]*lock, len(keys))
	err := together(len(keys), func(i int) (err error) {
		t.locks[i], err = t.loadOne(keys[i])
		return err
	})
	if err != nil {
		return err
	}
	now, known := t.p.clock.now()
	if t.looks && t.s.onlyLooks {
		now = ownMoment()
	} else if !known || t.doubts(now) {
		// A lease is over only by a stamp that is younger than what was read: the leader's clock may
		// have been set back, and there may be a new leader.
		if now, err = t.s.tick(t.p); err != nil {
			return err
		}
	}
	t.now = now
	for _, l := range t.locks {
		l.Sort()
		for _, m := range l.Holders() {
			m.ends = now.ends(m.stat, m.Term)
			if m.ends <= now.now {
				l.remove(m)
			}
		}
		if l.record != nil && l.record.ends <= now.now {
			l.record = nil
		}
	}
	return nil
}

// doubts reports whether a lease seems to be over, or was renewed under a leader that is not known
// yet.
func (t *tx) doubts(now moment) bool {
	for _, l := range t.locks {
		for _, m := range l.Members {
			if !m.waits && (epochOf(m.stat.Mzxid) > now.epoch || now.ends(m.stat, m.Term) <= now.now) {
				return true
			}
		}
	}
	return false
}

// loadOne reads one lock as of one version.
func (t *tx) loadOne(key string) (*lock, error) {
	l := &lock{key: key, path: t.s.lockPath(key)}
	var (
		names          []string
		data           []byte
		listed, stat   *zk.Stat
		notHere, noSon bool
	)
	err := together(2, func(i int) (err error) {
		if i == 0 {
			if names, listed, err = t.p.Children(l.path); errors.Is(err, zk.ErrNoNode) {
				noSon, err = true, nil
			}
			return err
		}
		if data, stat, err = t.p.Get(l.path); errors.Is(err, zk.ErrNoNode) {
			notHere, err = true, nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case notHere && noSon:
		return l, nil
	case notHere != noSon, listed.Version != stat.Version, listed.Czxid != stat.Czxid:
		return nil, errConflict
	}
	if err := decode(l.path, data, &l.was); err != nil {
		return nil, err
	}
	l.exists, l.version, l.last = true, stat.Version, l.was.Last
	l.Phase = phasefair.Phase{Mode: l.was.Mode, Through: l.was.Through}
	l.nodes = parseChildren(names)
	holders := make([]*member, len(l.nodes.holders))
	n := len(holders)
	if l.nodes.record && (t.records || slices.ContainsFunc(l.nodes.waiters, func(m *member) bool { return m.once })) {
		n++
	}
	err = together(n, func(i int) (err error) {
		if i == len(holders) {
			l.record, err = t.s.record(t.p, l.path)
			return err
		}
		holders[i], err = holder(t.p, l.path, l.nodes.holders[i])
		return err
	})
	l.Members = append(holders, l.nodes.waiters...)
	return l, err
}

// holder reads the node of a holder.
func holder(p *peer, lock, node string) (*member, error) {
	path := lock + "/" + node
	data, stat, err := p.Get(path)
	if err != nil {
		return nil, err
	}
	m := &member{id: node[len(holderNode):], node: node, stat: stat, since: stat.Ctime * 1000}
	if err := decode(path, data, &m.memberData); err != nil {
		return nil, err
	}
	m.mode, m.permits = m.Mode, m.Permits
	return m, nil
}

// mine returns what g's owner has of all its claims, or the error of a loss.
func (t *tx) mine(g driver.Grant, fits func(*member, driver.Claim) bool) ([]*member, error) {
	id := nodeID(g.Owner)
	var all []*member
	for _, c := range g.Claims {
		m := t.lock(c.Key).Holding(id, g.Token)
		if m == nil || !fits(m, c) {
			return nil, t.lost(c.Key, g)
		}
		all = append(all, m)
	}
	return all, nil
}

// lost returns the error that says how g lost key: as a verdict, unless the question fails.
func (t *tx) lost(key string, g driver.Grant) error {
	loss, err := t.s.loss(t.p, key, g)
	if err != nil {
		return err
	}
	return verdict{loss}
}

// loss finds out how g lost key.
func (s *Store) loss(p *peer, key string, g driver.Grant) (*driver.LeaseLostError, error) {
	loss := &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
	path := s.lockPath(key) + "/" + forcedNode + nodeID(g.Owner)
	data, stat, err := p.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return loss, nil
	}
	if err != nil {
		return nil, err
	}
	var f forcedData
	if err := decode(path, data, &f); err != nil {
		return nil, err
	}
	now, _ := p.clock.now()
	if wallEnds(stat, toMicros(forcedFor)) > now.now && (g.Token == 0 || g.Token == f.Token) {
		loss.Reason, loss.Detail = driver.LossForced, f.Reason
	}
	return loss, nil
}

// unexpected is for a list of answers that does not fit its request.
func unexpected(got, want int) error {
	return fmt.Errorf("zkstore: %d answers to %d operations", got, want)
}
