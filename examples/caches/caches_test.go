package caches

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
)

// memory is a Table. onGet, if set, runs once, behind the next Get: whatever comes between that and what follows.
type memory struct {
	mu     sync.Mutex
	owners map[string]string
	onGet  func()
}

func (m *memory) Get(group string) (string, bool) {
	m.mu.Lock()
	owner, ok := m.owners[group]
	then := m.onGet
	m.onGet = nil
	m.mu.Unlock()
	if then != nil {
		then()
	}
	return owner, ok
}

func (m *memory) Set(group, owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners[group] = owner
}

func (m *memory) Delete(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, group)
}

func newGroups(t *testing.T) (g *Groups, db *memory) {
	t.Helper()
	db = &memory{owners: map[string]string{"7": "alice"}}
	return &Groups{Locks: locktest.New(t).Engine, DB: db, Cache: &memory{owners: make(map[string]string)}}, db
}

type transfer func(ctx context.Context, group, from, to string) error

// twice has alice give the group away twice. A reader has read the database before the first commit,
// and fills the cache behind it. It returns what became of the second transfer, and what the reader
// found.
func twice(t *testing.T, g *Groups, db *memory, give transfer, read func()) (second error) {
	t.Helper()
	db.onGet = func() {
		if err := give(t.Context(), "7", "alice", "bob"); err != nil {
			t.Errorf("the first transfer: %v", err)
		}
	}
	read()
	return give(t.Context(), "7", "alice", "carol")
}

func TestALockDoesNotMakeACacheTrue(t *testing.T) {
	g, db := newGroups(t)
	if err := twice(t, g, db, g.TransferByCache, func() { g.Owner("7") }); err != nil {
		t.Errorf("the cache was true after all: %v", err)
	}
}

func TestDecideByTheDatabase(t *testing.T) {
	g, db := newGroups(t)
	if err := twice(t, g, db, g.Transfer, func() { g.Owner("7") }); !errors.Is(err, ErrNotOwner) {
		t.Errorf("alice gave the group away twice: %v", err)
	}
	if got := g.Owner("7"); got != "alice" {
		t.Errorf("the cache says %q: nothing was wrong with it", got)
	}
}

// The transfer waits until the reader has filled the cache, and forgets that.
func TestFillUnderTheSharedLock(t *testing.T) {
	g, db := newGroups(t)
	first := make(chan error, 1)
	db.onGet = func() {
		if err := g.Locks.Do(t.Context(), key("7"), func(context.Context) error { return nil }, core.WithFailFast()); !errors.Is(err, core.ErrHeld) {
			t.Errorf("a transfer would come in between: %v", err)
		}
		go func() { first <- g.TransferByCache(context.WithoutCancel(t.Context()), "7", "alice", "bob") }()
	}
	if owner, err := g.OwnerShared(t.Context(), "7"); err != nil || owner != "alice" {
		t.Errorf("%q, %v", owner, err)
	}
	if err := <-first; err != nil {
		t.Errorf("the first transfer: %v", err)
	}
	if err := g.TransferByCache(t.Context(), "7", "alice", "carol"); !errors.Is(err, ErrNotOwner) {
		t.Errorf("alice gave the group away twice: %v", err)
	}
	if owner, err := g.OwnerShared(t.Context(), "7"); err != nil || owner != "bob" {
		t.Errorf("%q, %v", owner, err)
	}
}
