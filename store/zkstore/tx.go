package zkstore

import (
	"context"
	"errors"
	"slices"
	"time"

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

// about runs decide in a transaction on the keys of a grant.
func (s *Store) about(ctx context.Context, name string, g driver.Grant, records bool, decide func(*tx) error) error {
	if err := s.check(g.Owner, g.Claims, g.TTL); err != nil {
		return err
	}
	if err := s.calls.Enter(); err != nil {
		return err
	}
	defer s.calls.Leave()
	_, err, answered := do(ctx, s, func(ctx context.Context) (struct{}, error) {
		_, err := s.transact(ctx, aim{keys: driver.Keys(g.Claims), records: records}, decide)
		return struct{}{}, err
	}, nil)
	return conclude(ctx, name, g.Claims[0].Key, answered, err)
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
