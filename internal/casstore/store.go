package casstore

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/lifetime"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Backend is what a store does itself.
type Backend interface {
	// Check refuses, before any I/O, a lease that the backend could not hold.
	Check(owner string, claims []driver.Claim, ttl time.Duration) error

	// Transact reads the keys of a, runs decide on them, and writes what has changed, unless somebody else
	// has written meanwhile. Then it begins anew, so decide may run several times. What decide returns
	// as an answer ([IsAnswer]) is returned as it is, and nothing is written. Afterwards Transact wakes
	// those that the decision has let in.
	//
	// unsure: an earlier attempt may have been carried out, because it had no answer.
	Transact(ctx context.Context, a Aim, decide func(*keystate.State) error) (unsure bool, err error)

	// Explain finds out whether owner has lost a lease by force.
	Explain(ctx context.Context, owner string, loss *driver.LeaseLostError) error

	// Failure is the caller's error for a request that was not carried out.
	Failure(op, key string, err error) error
}

// Aim says what a transaction is about.
type Aim struct {
	Keys    []string // in order
	Owner   string   // whose request it is; "": nobody's
	Records bool     // records are read, too
	// Looks: the answer depends on what was read even if nothing is written, so that must not be older
	// than the question.
	Looks bool
	// Unsure: the same request was sent before, and had no answer. What is read must not be older.
	Unsure bool
	// Waits: the request waits, and has more patience with a server that does not answer.
	Waits bool
}

// Store has the calls that are one decision.
type Store struct {
	Backend
	Calls *lifetime.Lifetime // and the goroutines that calls leave behind
	Life  context.Context    // ends when Close begins
	Hard  context.Context    // ends when Close gives up
	// Left is after how long nothing is left of a place in a queue that nobody keeps alive.
	Left time.Duration
}

// Patience bounds what a request does for a caller that has gone.
const Patience = 5 * time.Second

// IsAnswer reports whether err is the answer of a decision, and not a failure.
func IsAnswer(err error) bool {
	return errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLeaseLost) || errors.Is(err, driver.ErrWouldDeadlock)
}

// Do runs op on a goroutine of the store's, for clients whose calls don't end with a context. If ctx ends
// first, Do reports that op was not answered. op then has a while to end in an orderly way, and late, if
// it is not nil, is called after it.
func Do[T any](ctx context.Context, s *Store, op func(context.Context) (T, error), late func()) (T, error, bool) {
	return waitloop.Await(ctx, s.Calls.Go, func() (T, error) {
		hard, cancel := context.WithCancel(s.Hard)
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(Patience, cancel) })()
		return op(hard)
	}, late)
}

// Call runs op as a call of the store's that is over when Close returns. name is for errors.
func Call[T any](ctx context.Context, s *Store, name, key string, op func(context.Context) (T, error)) (value T, err error) {
	if err := s.Calls.Enter(); err != nil {
		return value, err
	}
	defer s.Calls.Leave()
	value, err, answered := Do(ctx, s, op, nil)
	switch {
	case !answered:
		return value, s.Failure(name, key, context.Cause(ctx))
	case err == nil, IsAnswer(err):
		return value, err
	}
	return value, s.Failure(name, key, err)
}

// outcome is what came of a decision about a grant.
type outcome struct {
	record *keystate.Record
	unsure bool
	loss   error // of one of the claims, although others have changed
}

// about runs decide on the keys of a grant.
func (s *Store) about(ctx context.Context, name string, g *driver.Grant, a Aim, before func(context.Context) (done, unsure bool), decide func(*keystate.State, *outcome) error) (outcome, error) {
	if err := s.Check(g.Owner, g.Claims, g.TTL); err != nil {
		return outcome{}, err
	}
	return Call(ctx, s, name, g.Claims[0].Key, func(ctx context.Context) (o outcome, err error) {
		if before != nil {
			var done bool
			if done, a.Unsure = before(ctx); done {
				return o, nil
			}
		}
		a.Keys, a.Owner = driver.Keys(g.Claims), g.Owner
		o.unsure, err = s.Transact(ctx, a, func(st *keystate.State) error {
			o.loss = nil
			return decide(st, &o)
		})
		for _, err := range []error{o.loss, err} {
			if loss := (*driver.LeaseLostError)(nil); errors.As(err, &loss) {
				if err := s.Explain(ctx, g.Owner, loss); err != nil {
					return o, err
				}
			}
		}
		return o, err
	})
}

// Downgrade implements [driver.Store].
func (s *Store) Downgrade(ctx context.Context, g driver.Grant) error {
	_, err := s.about(ctx, "downgrade", &g, Aim{}, nil, func(st *keystate.State, _ *outcome) error { return st.Downgrade(&g) })
	return err
}

// Release is Release of [driver.Store]. short, if it is not nil, is a quicker way, which may be done, or
// may leave open whether it is.
func (s *Store) Release(ctx context.Context, g driver.Grant, short func(context.Context) (done, unsure bool)) error {
	o, err := s.about(ctx, "release", &g, Aim{Looks: true}, short, func(st *keystate.State, o *outcome) (err error) {
		o.loss, err = st.Release(&g)
		return err
	})
	if err == nil {
		err = o.loss
	}
	if err != nil && o.unsure {
		return driver.Repeated(g, err)
	}
	return err
}

// Finish is Complete of [driver.Ledger], once the store knows how it keeps rec. It returns the record that
// is kept, which is another one if the call was repeated.
func (s *Store) Finish(ctx context.Context, g driver.Grant, rec keystate.Record, retention time.Duration) (*keystate.Record, error) {
	o, err := s.about(ctx, "complete", &g, Aim{Records: true}, nil, func(st *keystate.State, o *outcome) (err error) {
		kept := rec
		kept.Until = st.Now.Add(retention)
		o.record, err = st.Finish(&g, &kept)
		return err
	})
	return o.record, err
}

// ForceRelease is ForceRelease of [driver.Inspector].
func (s *Store) ForceRelease(ctx context.Context, key, reason string, only ...driver.Holder) ([]driver.Holder, error) {
	if err := driver.ValidateKey(key); err != nil {
		return nil, err
	}
	type result struct {
		gone   []driver.Holder
		unsure bool
	}
	res, err := Call(ctx, s, "force release", key, func(ctx context.Context) (r result, err error) {
		r.unsure, err = s.Transact(ctx, Aim{Keys: []string{key}, Looks: true}, func(st *keystate.State) (err error) {
			r.gone, err = st.Force(st.Keys[0], reason, only)
			return err
		})
		return r, err
	})
	if err == nil && res.unsure && len(res.gone) == 0 {
		err = &driver.UnavailableError{Op: "force release", Key: key, Err: driver.ErrOutcomeUnknown}
	}
	if err != nil {
		return nil, err
	}
	return res.gone, nil
}
