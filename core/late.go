package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/authoring"
)

// ErrNoStore: the engine has no store yet. An error that matches it also matches ErrUnavailable. See
// [NewLate].
var ErrNoStore = errors.New("keyturn: the engine has no store yet")

// late is what an engine knows whose store comes later.
type late struct {
	mu     sync.Mutex
	absent *backend         // the one until then; nil: the engine was made with a store
	rules  []authoring.Rule // declared before
}

// NewLate makes an engine whose store comes later ([Engine.Bind]), for programs that make their servers
// and middlewares before there is a connection to a store. Every middleware takes such an engine.
//
// Until then each call is refused with an error that matches ErrNoStore and ErrUnavailable: gRPC
// answers UNAVAILABLE, HTTP 503. Nothing runs without its lock, except with [WithRunUnlocked].
//
// The error joins an [*OptionError] for each option that is wrong. Bind checks what depends on the
// store.
func NewLate(opts ...EngineOption) (*Engine, error) {
	e, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	e.late.absent, err = e.equip(absentStore{}, 0) // callers are told that there is no store, not that it is silent
	if err != nil {
		return nil, err
	}
	e.now.Store(e.late.absent)
	return e, nil
}

// Bind gives an engine of [NewLate] its store, which belongs to the engine from then on. It does no
// I/O.
//
// The error joins what [New] would have refused, and an error for each rule that the store does not
// support. It is an [*OptionError] if the engine has a store already, and matches ErrClosed after
// [Engine.Close]. After an error the store is the caller's, and Bind may be called again.
func (e *Engine) Bind(store driver.Store) error {
	declared, err := e.bind(store)
	if err == nil {
		e.listen(e.backend())
	}
	for _, d := range declared {
		e.tellDeclared(d)
	}
	return err
}

// bind is Bind without the hooks. It returns the rules that were declared before.
func (e *Engine) bind(store driver.Store) ([]declaration, error) {
	e.late.mu.Lock()
	defer e.late.mu.Unlock()
	switch {
	case isNil(store):
		return nil, &OptionError{Option: "Bind", Value: store, Want: "a store"}
	case e.life.closing.Load():
		return nil, ErrClosed
	case e.backend() != e.late.absent:
		return nil, &OptionError{Option: "Bind", Value: store.Describe().Name, Want: "an engine without a store"}
	}
	b, err := e.equip(store, e.cfg.circuit)
	if err != nil {
		return nil, err
	}
	declared := make([]declaration, len(e.late.rules))
	var errs []error
	for i, r := range e.late.rules {
		if declared[i], err = e.check(b, r); err != nil {
			errs = append(errs, fmt.Errorf("rule for %q: %w", declared[i].Rule, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e.late.rules = nil
	e.now.Store(b)
	return declared, nil
}

// settle returns the backend that the engine ends with, after Close has begun.
func (e *Engine) settle() *backend {
	e.late.mu.Lock() // a Bind that has not seen the end is over then
	defer e.late.mu.Unlock()
	return e.backend()
}

// absentStore stands for a store that has not come. It seems to be able to do everything, so that all
// options and rules are taken until the store is known. What needs a grant nobody asks of it.
type absentStore struct{ driver.Unsupported }

func (absentStore) Describe() driver.Description {
	return driver.Description{
		Name: "none", Shared: true, Permits: true, Sets: true, MinHold: true, Ledger: true, Inspector: true,
		OnWanted: func(func(key, owner string)) {},
	}
}

func absent(op string) error { return &UnavailableError{Op: op, Err: ErrNoStore} }

func (absentStore) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, absent("acquire")
}

func (absentStore) Renew(_ context.Context, grants []driver.Grant) []error {
	return slices.Repeat([]error{absent("renew")}, len(grants))
}

func (absentStore) Release(context.Context, driver.Grant) error { return absent("release") }

func (absentStore) Close() error { return nil }

func (absentStore) Begin(context.Context, driver.Request) (driver.Grant, *driver.Record, error) {
	return driver.Grant{}, nil, absent("begin")
}

func (absentStore) AdvanceVersion(context.Context, string, uint64, time.Duration) (uint64, error) {
	return 0, absent("advance_version")
}

func (absentStore) Inspect(context.Context, string) (driver.LockInfo, error) {
	return driver.LockInfo{}, absent("inspect")
}

func (absentStore) List(context.Context, driver.Listing) ([]driver.LockInfo, string, error) {
	return nil, "", absent("list")
}

func (absentStore) ForceRelease(context.Context, string, string, ...driver.Holder) ([]driver.Holder, error) {
	return nil, absent("force")
}

func (absentStore) Forget(context.Context, string) (bool, error) { return false, absent("forget") }
