package core

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
	"github.com/keyturn/keyturn/core/internal/waitline"
)

// Engine grants leases over a store. One engine per store and process is enough. It is safe for
// concurrent use. Make one with [New]; the zero value is not usable.
type Engine struct {
	now       atomic.Pointer[backend]
	cfg       engineConfig
	log       logger
	keyFilter func(string) string // nil: keys are shown
	hooks     *hooks              // nil: none

	owners     ownerSource
	lines      *waitline.Lines
	debts      debts
	holds      holdstats.Stats
	rehearsals atomic.Int32 // of shadows, under way
	life       lifecycle
	late       late
}

// New makes an engine over store, which belongs to the engine from then on: [Engine.Close] closes
// it. New does no I/O, so it works while the store is down.
//
// The error joins an [*OptionError] for each option that is wrong.
func New(store driver.Store, opts ...EngineOption) (*Engine, error) {
	e, err := prepare(opts)
	if isNil(store) {
		err = errors.Join(&OptionError{Option: "New", Value: store, Want: "a store"}, err)
	}
	if err != nil {
		return nil, err
	}
	b, err := e.equip(store, e.cfg.circuit)
	if err != nil {
		return nil, err
	}
	e.now.Store(b)
	e.listen(b)
	return e, nil
}

// prepare makes an engine without a store.
func prepare(opts []EngineOption) (*Engine, error) {
	cfg := defaultConfig()
	var errs []error
	for _, o := range opts {
		if o == nil {
			errs = append(errs, &OptionError{Option: "New", Value: nil, Want: "options that are not nil"})
			continue
		}
		if err := o.applyEngine(&cfg); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:       cfg,
		log:       logger{to: cfg.log, show: cfg.keyFilter},
		keyFilter: cfg.keyFilter,
		owners:    newOwnerSource(),
		lines:     waitline.New(waitline.Config{MaxWaiters: cfg.maxWaiters, MaxWaitersTotal: cfg.maxWaitersTotal}),
	}
	e.hooks = newHooks(cfg.hooks, &e.log)
	e.debts.init(e)
	e.life.init()
	return e, nil
}

// isNil also finds a nil pointer inside a non-nil interface, which the first request would
// otherwise run into.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// Acquire claims key and waits until it has it. The claim is exclusive unless [WithShared] or
// [WithPermits] says otherwise. Waiters are served first come, first served. ctx and
// [WithMaxWait] bound the wait. The caller must release the lease ([Lease.Release]). It also ends
// when the process dies.
//
// Errors: ErrWaitTimeout (which also matches ErrHeld) if the maximum wait is over, ErrHeld with
// [WithFailFast], ErrTooManyWaiters, ErrUnavailable, ErrWouldDeadlock, ErrInvalidKey,
// ErrInvalidClaim, ErrInvalidOption, ErrClosed, [errors.ErrUnsupported], and ctx's own error if
// ctx ended first. If a deadline of ctx ends a call that the store did not answer for 0.1 s or
// more, the error is ErrUnavailable. Wrong input and ErrUnsupported are reported before any
// I/O.
//
// The lease's context descends from ctx. So bound the wait with [WithMaxWait], not with a
// deadline on ctx, which would end the work, too.
//
// Re-entrance follows the context, because Go has no thread identity. If ctx descends from a
// lease in force of this engine on key ([Lease.Context], [Lease.Attach]), Acquire returns a nested
// lease at once, without asking the store. It has the outer lease's token, owner and deadline;
// options about time have no effect on it. The key is free when the outermost lease is released,
// which also ends the contexts of the leases nested in it. Goroutines under one lease may nest at
// the same time: the lease does not exclude them from each other. An exclusive lease covers an
// exclusive, shared or permit claim, a shared lease a shared claim, and a permit a permit. Any
// other claim on a key that ctx holds would wait for its own lease, so it is ErrWouldDeadlock at
// once. A lease that is lost or released covers nothing.
func (e *Engine) Acquire(ctx context.Context, key string, opts ...CallOption) (*Lease, error) {
	return e.acquireSet(ctx, []Claim{Exclusive(key)}, opts)
}

// TryAcquire is [Engine.Acquire] without a wait for the holder: ErrHeld at once. If the store does
// not answer, the error matches ErrUnavailable after 5 s, or after the maximum wait
// ([WithMaxWait]) if that is shorter.
func (e *Engine) TryAcquire(ctx context.Context, key string, opts ...CallOption) (*Lease, error) {
	s, err := e.settingsFor(opts)
	if err != nil {
		return nil, err
	}
	atOnce := *s
	atOnce.failFast = true
	l, _, err := e.acquire(ctx, s.shape([]Claim{Exclusive(key)}), &atOnce)
	return l, err
}

// AcquireAll claims a set of keys, all or none. The claims are taken in key order, whatever order
// they come in, so two sets never wait for each other. A set has one token. While it waits, it holds
// the claims before the one that it waits for. Errors and waits are those of
// [Engine.Acquire].
//
// A set has 1 to 4096 claims, without the levels that [WithHierarchy] adds, and each key once.
// Otherwise the error matches ErrInvalidClaim, before any I/O. If the store can't take sets, or
// not in these modes, the error matches [errors.ErrUnsupported], also before any I/O. The slice is
// not kept.
//
// Claims that ctx holds already stay with the leases that hold them, and the rest is acquired.
// [Lease.Claims] is that rest. The new token is for the newly acquired keys only: the resources of
// the other keys know another token. The lease also counts as lost as soon as one of those leases
// is lost. Their keys are held while AcquireAll waits for the rest. So calls that nest keys in
// different orders can deadlock, until [WithMaxWait] ends it. Take such keys in one set, outermost,
// if possible.
func (e *Engine) AcquireAll(ctx context.Context, claims []Claim, opts ...CallOption) (*Lease, error) {
	if err := checkCount(claims); err != nil {
		return nil, err
	}
	return e.acquireSet(ctx, slices.Clone(claims), opts)
}

// acquireSet is AcquireAll with a slice of claims that it may keep.
func (e *Engine) acquireSet(ctx context.Context, claims []Claim, opts []CallOption) (*Lease, error) {
	s, err := e.settingsFor(opts)
	if err != nil {
		return nil, err
	}
	l, _, err := e.acquire(ctx, s.shape(claims), s)
	return l, err
}

// settingsFor applies a call's options to the engine's defaults. All calls with the same policy
// share the result, which must not be changed: a copy on the stack of each waiting caller would
// cost more than the rest of its frame.
func (e *Engine) settingsFor(opts []CallOption) (*settings, error) {
	return e.backend().settingsFor(opts)
}

func (b *backend) settingsFor(opts []CallOption) (*settings, error) {
	if len(opts) == 0 {
		return &b.defaults, nil
	}
	if p, ok := opts[0].(Policy); ok && len(opts) == 1 && p.last != nil {
		return p.settingsFor(b)
	}
	s := new(settings) // on the heap, because the options get a pointer to it
	*s = b.defaults
	err := s.apply(opts)
	if err == nil {
		err = s.fit(b.about)
	}
	return s, err
}
