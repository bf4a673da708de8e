package core

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/circuit"
	"github.com/keyturn/keyturn/core/internal/holdstats"
	"github.com/keyturn/keyturn/core/internal/lazyctx"
	"github.com/keyturn/keyturn/core/internal/waitline"
	"github.com/keyturn/keyturn/core/internal/watchdog"
)

// Engine grants leases over a store. One engine per store and process is
// enough; it is safe for concurrent use. Make one with [New].
type Engine struct {
	store    driver.Store
	about    driver.Description // of the store
	askPlain ask
	log      logger
	hooks    *hooks // nil: none
	defaults settings

	releaseTimeout time.Duration
	owners         ownerSource
	lines          *waitline.Lines
	circuit        *circuit.Breaker
	watchdog       *watchdog.Watchdog
	debts          debts
	holds          *holdstats.Stats
	life           lifecycle
}

// New makes an engine over store, which is the engine's from then on: Close
// closes it. New does no I/O, so it works while the store is down.
//
// The error joins every [*OptionError].
func New(store driver.Store, opts ...EngineOption) (*Engine, error) {
	cfg := defaultConfig()
	var errs []error
	if isNil(store) {
		errs = append(errs, &OptionError{Option: "New", Value: store, Want: "a store"})
	}
	for _, o := range opts {
		if o == nil {
			errs = append(errs, &OptionError{Option: "New", Value: nil, Want: "options that are not nil"})
			continue
		}
		if err := o.applyEngine(&cfg); err != nil {
			errs = append(errs, err)
		}
	}
	var about driver.Description
	if len(errs) == 0 {
		about = store.Describe()
		errs = append(errs, cfg.fit(about.TTLs))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.defaults.said = 0
	e := &Engine{
		store:          store,
		about:          about,
		log:            logger{to: cfg.log},
		defaults:       cfg.defaults,
		releaseTimeout: cfg.releaseTimeout,
		owners:         newOwnerSource(),
		lines:          waitline.New(waitline.Config{MaxWaiters: cfg.maxWaiters, MaxWaitersTotal: cfg.maxWaitersTotal, FairTime: circuit.FairTime}),
		holds:          holdstats.New(),
	}
	e.hooks = newHooks(cfg.hooks, &e.log)
	e.circuit = circuit.New(circuit.Config{Silence: cfg.circuit, Log: e.log.write, Answered: e.debts.heard, Partition: e.about.Partition})
	if e.about.OnImpaired != nil && e.hooks != nil {
		e.about.OnImpaired(func(reason error) { e.hooks.storeImpaired(e.about.Name, reason) })
	}
	e.watchdog = newWatchdog(e)
	e.debts.init(e)
	e.life.init()
	e.askPlain = plainly(store)
	return e, nil
}

// isNil also finds the nil pointer inside a non-nil interface, which would
// otherwise come up in the first request.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// Acquire claims key, exclusively unless [WithShared] or [WithPermits] says
// otherwise, and waits its turn: first come, first served, for as long as ctx and
// [WithMaxWait] allow. The caller must release the lease, which is also what
// ends when the process dies.
//
// Errors: one that matches ErrWaitTimeout (and ErrHeld) when the wait was
// over, ErrTooManyWaiters, ErrUnavailable, ErrInvalidKey, ErrInvalidOption,
// ErrClosed; ctx's own error when ctx ended first.
//
// Go has no thread identity, so re-entrance follows the context. If ctx descends
// from a lease of this engine on key that is in force ([Lease.Context],
// [Lease.Attach]), there is nothing to wait for and nobody to ask: the lease
// returned is nested in that one. It has its token, owner and deadline, and
// counts ([Lease.Depth]); options about time mean nothing to it. The key is free
// when the outermost lease is released, and that ends the contexts of those
// nested in it. Goroutines under one lease may nest at the same time: it does not
// keep them from each other. Exclusive covers exclusive, shared and permit;
// shared covers shared, a permit another permit. Anything else on a key that ctx
// holds would wait for its own lease: that is an error that matches
// ErrWouldDeadlock, at once. A lease that is lost or released covers nothing.
//
// The lease's context descends from ctx. So bound the wait with WithMaxWait
// rather than with a deadline on ctx, which would end the work too.
func (e *Engine) Acquire(ctx context.Context, key string, opts ...CallOption) (*Lease, error) {
	return e.acquireSet(ctx, []Claim{Exclusive(key)}, opts)
}

// TryAcquire is Acquire without waiting for the holder: ErrHeld at once. A store
// that does not answer is given 5 s, or [WithMaxWait] if that is less.
func (e *Engine) TryAcquire(ctx context.Context, key string, opts ...CallOption) (*Lease, error) {
	s, err := e.settle(opts)
	if err != nil {
		return nil, err
	}
	atOnce := *s
	atOnce.failFast = true
	return e.acquirePlain(ctx, s.shape([]Claim{Exclusive(key)}), &atOnce)
}

// AcquireAll claims a set, all or none. The claims are taken in key order,
// whatever order they come in, so that two sets never wait for each other. A
// key may stand in the set once, and a set has at most [driver.MaxClaims] claims; the
// levels that [WithHierarchy] adds do not count. Otherwise the error is a
// [*driver.ClaimError], before any I/O. What the store can't do gives an error that
// matches errors.ErrUnsupported, also before any I/O. In
// all else it is like Acquire.
//
// What ctx holds of the set is left to the leases that it is held by, and the
// rest is obtained. [Lease.Claims] is that rest: the token must not be used for
// the other keys, whose guards know another one. But the lease counts as lost as
// soon as one of those is. Their keys are held while it waits for the rest, so
// calls that nest keys in different orders can wait for each other until
// [WithMaxWait] ends it: take them in one set, outermost, where that can be.
func (e *Engine) AcquireAll(ctx context.Context, claims []Claim, opts ...CallOption) (*Lease, error) {
	if err := checkCount(claims); err != nil {
		return nil, err
	}
	return e.acquireSet(ctx, slices.Clone(claims), opts)
}

// acquireSet has claims for its own.
func (e *Engine) acquireSet(ctx context.Context, claims []Claim, opts []CallOption) (*Lease, error) {
	s, err := e.settle(opts)
	if err != nil {
		return nil, err
	}
	return e.acquirePlain(ctx, s.shape(claims), s)
}

// Do runs fn while holding key. fn's context is the lease's: it carries the
// lease ([LeaseFrom]) and ends when the lease is lost. The key is held until
// fn returns, also when ctx ends before; a panic releases it.
//
// fn's error is returned as it is. If the lease was lost while fn ran, the
// error matches ErrLeaseLost, whatever fn returned, and fn's error too. A
// release that went unanswered is not an error here: the work was done while
// the key was held. The engine logs it and sends it again; see [Lease.Release].
func (e *Engine) Do(ctx context.Context, key string, fn func(context.Context) error, opts ...CallOption) error {
	return e.doSet(ctx, []Claim{Exclusive(key)}, fn, opts)
}

// DoAll is Do for a set of claims, which [Engine.AcquireAll] describes.
func (e *Engine) DoAll(ctx context.Context, claims []Claim, fn func(context.Context) error, opts ...CallOption) error {
	if err := checkCount(claims); err != nil {
		return err
	}
	return e.doSet(ctx, slices.Clone(claims), fn, opts)
}

// doSet has claims for its own.
func (e *Engine) doSet(ctx context.Context, claims []Claim, fn func(context.Context) error, opts []CallOption) error {
	s, err := e.settle(opts)
	if err != nil {
		return err
	}
	if fn == nil {
		return errNoFunction
	}
	claims = s.shape(claims)
	lease, err := e.acquirePlain(ctx, claims, s)
	if err != nil {
		if e.runsUnlocked(ctx, claims, s, err) {
			return fn(ctx)
		}
		return err
	}
	lease.run(ctx, func(ctx context.Context) { err = fn(ctx) })
	return lease.done(ctx, err)
}

// errNoFunction comes before any I/O, a panic would come while holding the key.
var errNoFunction = &OptionError{Option: "fn", Want: "a function"}

// runsUnlocked decides, in the one place there is, that work runs without its
// lock. A store that answered, though too late, has the lock for somebody else
// by now; one that refuses to serve may go on renewing a holder's lease; and one that
// had no time to answer may be as well as ever.
func (e *Engine) runsUnlocked(ctx context.Context, claims []Claim, s *settings, err error) bool {
	var out *UnavailableError
	switch {
	case !s.runUnlocked, !errors.Is(err, ErrUnavailable), ctx.Err() != nil,
		errors.Is(err, errTooLate), errors.Is(err, waitline.ErrHurried),
		errors.As(err, &out) && out.Refused:
		return false
	}
	if e.hooks != nil {
		e.hooks.unlocked(ctx, e.acquisition(claims, s), err)
	}
	return true
}

// settle applies a call's options to the engine's defaults. What it returns is
// shared by all calls with the same policy, and not to be changed: a copy on the
// stack of each waiting caller would cost more than the rest of its frame.
func (e *Engine) settle(opts []CallOption) (*settings, error) {
	if len(opts) == 0 {
		return &e.defaults, nil
	}
	if p, ok := opts[0].(Policy); ok && len(opts) == 1 && p.settled != nil {
		return p.settle(e)
	}
	s := new(settings) // what options are given is on the heap
	*s = e.defaults
	err := s.apply(opts)
	if err == nil {
		err = s.fit(e.about.TTLs)
	}
	return s, err
}

// detached gives a context for what must be tidied up although ctx has ended.
func (e *Engine) detached(ctx context.Context) *lazyctx.Context {
	return lazyctx.Detached(ctx, e.releaseTimeout)
}
