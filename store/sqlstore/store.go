package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/lifetime"
)

// Store implements [driver.Store] with every optional part. Make one with [New]. It is safe for
// concurrent use.
type Store struct {
	ops     casstore.Store
	rules   keystate.Rules
	db      *sql.DB
	d       *dialect
	cfg     config
	client  *Client // of PostgreSQL; nil: none is linked
	checked checked // before that, no request is sent; what follows is known afterwards
	q       statements
	prefix  string     // of the tables' names, with their schema
	user    string     // of PostgreSQL
	mariaDB bool       // not MySQL itself
	file    *file      // of SQLite; nil: none
	gate    *writeGate // of that file; nil: none

	workers  *workers // for everything except renewals
	renewals *workers
	stuck    *stuck
	waiters  *waiters
	batcher  *batcher

	swept atomic.Bool // or about to be: see sweepOnce

	wanted casstore.Wanted
	health health // of the messages

	life   context.Context // ends when Close begins, and ends all waits
	end    context.CancelFunc
	hard   context.Context // ends statements that are still under way when Close gives up
	cancel context.CancelFunc

	calls lifetime.Lifetime // and the goroutines that they leave behind
}

var _ driver.Store = (*Store)(nil)

// New makes a store over db, whose tables exist ([Migrate], [Schema]). The pool stays the
// caller's: Close does not close it. New asks the database whether the tables are there, and
// whether its settings keep what was committed; of settings it logs a warning. A database that does
// not answer within 2 s is no error: New asks again later, and logs what is wrong then.
//
// The error joins every [*driver.OptionError], before any I/O. It matches [ErrSchema] if a table or
// column is missing, [ErrNoDatabase] if the database itself is, and [ErrSettings] if the sessions have
// settings under which the store can't keep its promises. If the database refuses, as for a wrong
// password, it matches driver.ErrUnavailable.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	cfg, err := configure(d, opts)
	if db == nil {
		err = errors.Join(err, &driver.OptionError{Option: "New", Value: nil, Want: "a database"})
	}
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, d: d.dialect, cfg: cfg,
		workers: newWorkers(d.most(cfg.conns)), renewals: newWorkers(1), stuck: newStuck(),
	}
	if s.d == &postgres {
		s.client = linked.Load()
	}
	s.checked.s, s.checked.now = s, make(chan struct{}, 1)
	s.name(cfg.prefix)
	s.life, s.end = context.WithCancel(context.Background())
	s.hard, s.cancel = context.WithCancel(context.Background())
	s.ops = casstore.Store{Backend: s.backend(), Calls: &s.calls, Life: s.life, Hard: s.hard, Left: cfg.waiterLease}
	s.rules = keystate.Rules{Term: cfg.claimTime(), Place: cfg.waiterLease}
	s.waiters, s.batcher = newWaiters(s), newBatcher(s)
	s.health.waker, s.health.log = cfg.waker, cfg.log
	later := func(err error) { cfg.log.Error("sqlstore: the database answers now, and cannot be used", "error", err) }
	if err := s.calls.Open(ctx, s.life, s.checked.at, later); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.calls.Go(s.sweep)
	if cfg.waker != nil {
		s.calls.Go(s.listen)
	}
	return s, nil
}

// backend is the store as package casstore sees it.
func (s *Store) backend() casstore.Backend {
	return casstore.Backend{
		Check: driver.CheckLease, Acquire: s.acquire, Explain: s.explain, Show: s.inspect, Failure: failure,
		// A key without a row has nothing that such a decision could change.
		Transact: func(ctx context.Context, a casstore.Aim, decide func(*keystate.State) error) (unsure bool, err error) {
			return s.transact(ctx, a, existing, func(t *tx) error { return decide(&t.State) })
		},
		Run: func(ctx context.Context, keys []string, work func(context.Context) error, late func()) (err error, answered bool) {
			return s.do(ctx, s.workers, keys, work, late)
		},
	}
}

// Describe implements [driver.Store]. The name is "postgres", "mysql" or "sqlite". With a [Waker],
// leases may linger (core.WithLinger), the engine learns at once that another server answers, and
// hooks are told while messages don't arrive.
func (s *Store) Describe() driver.Description {
	d := driver.Description{
		Name:   s.d.name,
		Shared: true, Permits: true, Sets: true, MinHold: true,
		Ledger: true, Inspector: true, Examine: s.examine,
		// A shorter lease could end between two messages of a busy database.
		TTLs: driver.TTLs{Least: 100 * time.Millisecond},
	}
	if s.cfg.waker != nil {
		d.OnWanted, d.OnImpaired = s.wanted.On, s.health.watch
		d.Identity = func(context.Context) (string, error) { return s.cfg.waker.Server() } // it asks for nothing
	}
	return d
}

// Close implements [driver.Store]. It waits for calls and goroutines under way, five seconds at
// most; the error says if that was not enough. A second Close waits for the first and returns
// the same error.
func (s *Store) Close() error {
	return s.calls.Close(func() error {
		s.end()
		err := s.calls.Drain("sqlstore", func() {
			s.gate.close()
			if s.cfg.ownsPool {
				_ = s.db.Close() // its connections are idle, so there is nothing to lose
			}
		})
		s.cancel()
		if s.cfg.waker != nil {
			err = errors.Join(err, s.cfg.waker.Close())
		}
		return err
	})
}
