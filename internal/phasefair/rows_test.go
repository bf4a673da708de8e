package phasefair_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/phasefair"
	"github.com/keyturn/keyturn/internal/waitloop"
)

const (
	patience = 100 * time.Millisecond // silence after which a waiter counts as dead
	perStep  = 2                      // few, so that most steps leave somebody to the next one
)

// table is a database with a row for each key and each member of it. Its mutex stands for a
// transaction. It has nothing of its own to decide.
type table struct {
	mu    sync.Mutex
	locks map[string]*lockRow
	last  uint64 // token
}

type lockRow struct {
	phasefair.Lock[*member]
	arrived uint64
}

type member struct {
	owner           string
	claim           driver.Claim
	arrived         uint64
	holds           bool
	ends, since     time.Time
	ttl             time.Duration
	token, reserved uint64
	wanted          uint64 // tokens to reserve
	wake            chan struct{}
}

func (m *member) Standing() phasefair.Standing {
	return phasefair.Standing{
		Owner: m.owner, Waits: !m.holds, Mode: m.claim.Mode, Permits: m.claim.Permits, Token: m.token, Arrived: m.arrived,
	}
}

// at reads the row of key, without those whose time is over.
func (t *table) at(key string, now time.Time) *lockRow {
	r := t.locks[key]
	if r == nil {
		r = &lockRow{}
		t.locks[key] = r
	}
	r.Members = slices.DeleteFunc(r.Members, func(m *member) bool { return !now.Before(m.ends) })
	return r
}

// step lets in whose turn it is, and wakes them.
func (t *table) step(r *lockRow, now time.Time) {
	step := r.Step(perStep)
	r.Phase = step.Phase
	for _, m := range step.Granted {
		t.enter(m, now)
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

func (t *table) enter(m *member, now time.Time) {
	m.holds, m.since, m.ends = true, now, now.Add(m.ttl)
	m.token, m.reserved = driver.NextTokens(t.last, now, m.wanted)
	t.last = m.token + m.reserved
}

// rows is a store on a table.
type rows struct {
	driver.Unsupported
	*table
	life   context.Context
	closes context.CancelFunc
}

func (t *table) open() *rows {
	s := &rows{table: t}
	s.life, s.closes = context.WithCancel(context.Background())
	return s
}

func (*rows) Describe() driver.Description { return driver.Description{Shared: true, Permits: true} }

func (s *rows) Close() error {
	s.closes()
	return nil
}

func (s *rows) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	if s.life.Err() != nil {
		return driver.Grant{}, driver.ErrClosed
	}
	q := &question{rows: s, req: req, claim: req.Claims[0], wake: make(chan struct{}, 1)}
	return waitloop.Run(ctx, waitloop.Terms{Wait: req.Wait, OnHeld: req.OnHeld, Life: s.life}, q)
}

// question is an Acquire under way.
type question struct {
	*rows
	req   driver.Request
	claim driver.Claim
	wake  chan struct{}
}

func (q *question) Ask(context.Context) (driver.Grant, *waitloop.State, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	r := q.at(q.claim.Key, now)
	m := r.Find(q.req.Owner)
	if m != nil && !m.holds {
		m.ends = now.Add(patience) // before the step, which leaves out the dead
	}
	q.step(r, now)
	switch {
	case m != nil && m.holds && m.claim.Mode != q.claim.Mode:
		return driver.Grant{}, nil, &driver.DeadlockError{Key: q.claim.Key, Held: m.claim, Wanted: q.claim}
	case m != nil && m.holds: // by now, or since before it asked
		m.claim, m.ttl, m.ends = q.claim, q.req.TTL, now.Add(q.req.TTL)
		return q.grant(m), nil, nil
	case m == nil && r.Admits(q.claim):
		r.Phase = r.Phase.Entered(q.claim.Mode)
		m = q.join(r, now)
		q.enter(m, now)
		return q.grant(m), nil, nil
	case m == nil && q.req.Wait:
		q.join(r, now)
	}
	return driver.Grant{}, q.held(r, now), nil
}

func (q *question) join(r *lockRow, now time.Time) *member {
	r.arrived++
	m := &member{
		owner: q.req.Owner, claim: q.claim, arrived: r.arrived, ends: now.Add(patience), ttl: q.req.TTL, wanted: q.req.HandOffs, wake: q.wake,
	}
	r.Members = append(r.Members, m)
	return m
}

func (q *question) grant(m *member) driver.Grant {
	return driver.Grant{Owner: m.owner, Claims: q.req.Claims, TTL: q.req.TTL, Token: m.token, HandOffs: m.reserved, Since: time.Now()}
}

func (q *question) held(r *lockRow, now time.Time) *waitloop.State {
	s := &waitloop.State{At: now, Within: patience / 3, Changes: [2]time.Duration{-1, -1}}
	s.Held = driver.HeldError{Key: q.claim.Key, Ahead: r.Ahead(q.req.Owner)}
	if holders := r.Holders(); len(holders) > 0 {
		last, room := phasefair.InTheWay(r.Phase.Mode, holders, func(m *member) time.Duration { return m.ends.Sub(now) })
		s.Held.Holder, s.Held.RetryAfter, s.Held.HeldFor = last.owner, room, now.Sub(last.since)
	}
	return s
}

func (q *question) Enter(context.Context) bool                     { return true }
func (q *question) Messages() <-chan struct{}                      { return q.wake }
func (q *question) Accept(struct{}) (g driver.Grant, isGrant bool) { return g, false }
func (q *question) Poll() (pause time.Duration, slept func())      { return 0, func() {} }

func (q *question) Withdraw(context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	r := q.at(q.claim.Key, now)
	if m := r.Find(q.req.Owner); m != nil {
		r.Remove(m)
		q.step(r, now)
	}
	return nil
}

// mine is g's member; nil: it is lost.
func (t *table) mine(g driver.Grant, now time.Time) (*lockRow, *member) {
	r := t.at(g.Claims[0].Key, now)
	return r, r.Holding(g.Owner, g.Token)
}

func lost(g driver.Grant) error {
	return &driver.LeaseLostError{Key: g.Claims[0].Key, Token: g.Token, Reason: driver.LossTaken}
}

func (s *rows) Renew(_ context.Context, grants []driver.Grant) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, now := make([]error, len(grants)), time.Now()
	for i, g := range grants {
		_, m := s.mine(g, now)
		switch {
		case m == nil, g.Token == 0, m.claim.Mode != g.Claims[0].Mode, g.Borrowed && (g.TTL > m.ttl || g.HandOffs > m.reserved):
			errs[i] = lost(g)
		case !g.Borrowed:
			m.ttl, m.ends = g.TTL, now.Add(g.TTL)
		case now.Add(g.TTL).After(m.ends):
			m.ends = now.Add(g.TTL)
		}
	}
	return errs
}

func (s *rows) Downgrade(_ context.Context, g driver.Grant) error {
	if s.life.Err() != nil {
		return driver.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, c := time.Now(), g.Claims[0]
	r, m := s.mine(g, now)
	switch {
	case m == nil, g.Token == 0:
		return lost(g)
	case m.claim.Mode == driver.ModeExclusive && c.Mode == driver.ModeShared:
		r.Phase = r.Downgraded()
	case m.claim.Mode != c.Mode:
		return lost(g)
	}
	m.claim, m.ttl, m.ends = c, g.TTL, now.Add(g.TTL)
	s.step(r, now)
	return nil
}

func (s *rows) Release(_ context.Context, g driver.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, m := s.mine(g, now)
	if m == nil {
		return lost(g)
	}
	r.Remove(m)
	s.step(r, now)
	return nil
}

// TestStoreOfRows: a store keeps the contract of queues, phases and waits that takes all
// decisions from this package, and waits with package waitloop.
func TestStoreOfRows(t *testing.T) {
	all := &table{locks: make(map[string]*lockRow)}
	drivertest.Run(t, drivertest.Harness{
		New:    func(testing.TB) driver.Store { return all.open() },
		Around: synctest.Test,
		Late:   200 * time.Millisecond,
	})
}
