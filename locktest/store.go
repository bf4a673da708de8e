package locktest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// Store is a store in memory that fails on command. Its faults may be switched at any time,
// from any goroutine. Each lasts until another one or [Store.Heal].
type Store struct {
	mem *memstore.Store

	mu      sync.Mutex
	fault   fault
	changed chan struct{} // closed when the fault changes
	delay   time.Duration
	waits   map[*context.CancelCauseFunc]struct{} // of requests that an outage can cut short
	granted map[string]struct{}                   // owners whose leases were not released
	wanted  func(key, owner string)               // the engine's; nil: there is none
}

var _ driver.Store = (*Store)(nil)

// NewStore makes a Store over mem, for an engine that is not a [Kit]'s. Several of them over
// one mem, or its peers, stand for several processes. Close each of them.
func NewStore(mem *memstore.Store) *Store {
	return &Store{mem: mem, changed: make(chan struct{}), waits: make(map[*context.CancelCauseFunc]struct{}), granted: make(map[string]struct{})}
}

// Describe implements [driver.Store]. It is the description of the store in memory, which
// supports everything.
func (s *Store) Describe() driver.Description {
	d := s.mem.Describe()
	tells := d.OnWanted
	d.OnWanted = func(f func(key, owner string)) {
		s.mu.Lock()
		s.wanted = f
		s.mu.Unlock()
		tells(f)
	}
	return d
}

// Acquire implements [driver.Store].
func (s *Store) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := s.ask(ctx, req, func(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
		g, err := s.mem.Acquire(ctx, req)
		return g, nil, err
	})
	return g, err
}

// Begin implements [driver.Ledger].
func (s *Store) Begin(ctx context.Context, req driver.Request) (driver.Grant, *driver.Record, error) {
	return s.ask(ctx, req, s.mem.Begin)
}

func (s *Store) ask(ctx context.Context, req driver.Request, ask func(context.Context, driver.Request) (driver.Grant, *driver.Record, error)) (driver.Grant, *driver.Record, error) {
	if err := s.there(ctx, "acquire"); err != nil {
		return driver.Grant{}, nil, err
	}
	waiting, done := s.wait(ctx)
	g, rec, err := ask(waiting, req)
	done()
	if err == nil && rec == nil {
		s.keep(g.Owner)
	}
	if context.Cause(waiting) == errRefused { // even if it is healed by now
		return driver.Grant{}, nil, &driver.UnavailableError{Op: "acquire", Err: errRefused}
	}
	if err := s.back(ctx, "acquire"); err != nil {
		return driver.Grant{}, nil, err
	}
	return g, rec, err
}

// Renew implements [driver.Store].
func (s *Store) Renew(ctx context.Context, grants []driver.Grant) []error {
	var errs []error
	err := s.exchange(ctx, "renew", func() error {
		errs = s.mem.Renew(ctx, grants)
		return nil
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	return errs
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	return s.exchange(ctx, "downgrade", func() error { return s.mem.Downgrade(ctx, g) })
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, g driver.Grant) error {
	return s.exchange(ctx, "release", func() error {
		defer s.drop(g.Owner)
		return s.mem.Release(ctx, g)
	})
}

// Complete implements [driver.Ledger].
func (s *Store) Complete(ctx context.Context, g driver.Grant, rec driver.Record, retention time.Duration) error {
	return s.exchange(ctx, "complete", func() error {
		defer s.drop(g.Owner)
		return s.mem.Complete(ctx, g, rec, retention)
	})
}

// AdvanceVersion implements [driver.Ledger].
func (s *Store) AdvanceVersion(ctx context.Context, key string, version uint64, retention time.Duration) (newest uint64, err error) {
	err = s.exchange(ctx, "advance_version", func() (err error) {
		newest, err = s.mem.AdvanceVersion(ctx, key, version, retention)
		return err
	})
	return newest, err
}

// Close implements [driver.Store].
func (s *Store) Close() error { return s.mem.Close() }

func (s *Store) keep(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted[owner] = struct{}{}
}

func (s *Store) drop(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.granted, owner)
}

func (s *Store) isGranted(owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.granted[owner]
	return ok
}
