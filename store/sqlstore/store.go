package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Store implements [driver.Store] with every optional part. Make one with [New]. It is safe for
// concurrent use.
type Store struct {
	db  *sql.DB
	d   *dialect
	cfg config
	q   statements

	room     slots // for everything except renewals
	renewals slots
	places   *places

	life   context.Context // ends when Close begins, and ends all waits
	end    context.CancelFunc
	hard   context.Context // ends statements that are still under way when Close gives up
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup // calls and goroutines under way
	done   chan struct{}  // closed when Close has finished
	err    error          // what Close returns
}

var _ driver.Store = (*Store)(nil)

// closeTimeout bounds Close if the database does not answer.
const closeTimeout = 5 * time.Second

// New makes a store over db, whose tables exist ([Migrate], [Schema]). The pool stays the
// caller's: Close does not close it. New asks the database whether the tables are there, and
// whether its settings keep what was committed; of settings it logs a warning.
//
// The error joins every [*driver.OptionError], before any I/O. If a table or column is missing,
// it matches [ErrSchema]. If the database does not answer, it matches driver.ErrUnavailable.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	cfg, err := configure(d, opts)
	if db == nil {
		err = errors.Join(err, &driver.OptionError{Option: "New", Value: nil, Want: "a database"})
	}
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, d: d.dialect, cfg: cfg, q: d.statements(cfg.prefix),
		room: make(slots, d.most(cfg.conns)), renewals: make(slots, 1), done: make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.hard, s.cancel = context.WithCancel(context.Background())
	s.places = newPlaces(s)
	if err := s.look(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.tasks.Go(s.sweep)
	s.listen()
	return s, nil
}

// Describe implements [driver.Store]. The name is "postgres", "mysql" or "sqlite".
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Name:   s.d.name,
		Shared: true, Permits: true, Sets: true, Stays: true,
		Ledger: true, Inspector: true,
		// A shorter lease could end between two messages of a busy database.
		TTLs: driver.TTLs{Least: 100 * time.Millisecond},
	}
}

// enter registers a call. If it returns nil, the caller owes a leave.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrClosed
	}
	s.tasks.Add(1)
	return nil
}

func (s *Store) leave() { s.tasks.Done() }

// Close implements [driver.Store]. It waits for calls and goroutines under way, five seconds at
// most; the error says if that was not enough. A second Close waits for the first and returns
// the same error.
func (s *Store) Close() error {
	s.mu.Lock()
	before := s.closed
	s.closed = true
	s.mu.Unlock()
	if before {
		<-s.done
		return s.err
	}
	s.end()
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		s.tasks.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-quiet:
	case <-timer.C:
		s.err = fmt.Errorf("sqlstore: closed, but requests were unanswered for %v", closeTimeout)
	}
	s.cancel()
	if s.cfg.waker != nil {
		s.err = errors.Join(s.err, s.cfg.waker.Close())
	}
	close(s.done)
	return s.err
}

// maxOwnerBytes is what the column of the owner has room for.
const maxOwnerBytes = 255

// check refuses, before any I/O, requests that the tables could not hold. The engine has checked
// the same before.
func check(owner string, claims []driver.Claim, ttl time.Duration) error {
	if len(claims) == 0 {
		return &driver.ClaimError{Reason: "is empty"}
	}
	for i, c := range claims {
		if err := c.Validate(); err != nil {
			return err
		}
		if i > 0 && claims[i-1].Key >= c.Key {
			return &driver.ClaimError{Key: c.Key, Reason: "is not in key order, or is in the set twice"}
		}
	}
	if owner == "" || len(owner) > maxOwnerBytes || strings.ContainsAny(owner, ": \t\r\n\x00") {
		return fmt.Errorf("%w: %.300q", ErrOwner, owner)
	}
	if ttl < time.Millisecond {
		return &driver.OptionError{Option: "TTL", Value: ttl, Want: "1ms or more"}
	}
	return nil
}
