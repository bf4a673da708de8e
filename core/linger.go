package core

import (
	"context"
	"errors"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/handoff"
	"github.com/keyturn/keyturn/core/internal/linger"
	"github.com/keyturn/keyturn/core/observe"
)

// WithLinger keeps a lease with the engine for up to d after its release, if nobody waits for it.
// The next caller of this process has it at once, with a greater token, and the store is asked for
// nothing. It is for requests that are routed by key, such as those of a user whose connection
// stays on one gateway: the same process asks for the same key again and again.
//
// As soon as another process wants the key, the store tells this one, which gives the lease back:
// at once if nobody works under it, otherwise at the end of that work. A caller elsewhere that does
// not wait is refused, as by any holder, and its next try succeeds. A client that cannot send such
// a message, such as a foreign client of the same Redis, has to find a moment at which the key is
// free: each lease goes back to the store after ten times d at most, and a busy process may take
// the key again at once.
//
// The price: a process that crashes leaves the keys locked that it used last, for the rest of their
// TTL, also if it was not working under them. So the next process waits for a TTL more often. And
// after the store has lost a lock (FLUSHALL, an eviction, a failover), this process may take the
// lease that it still keeps, with a token that is smaller than another holder's: until its next
// renewal, which is after a third of the TTL at most. A resource that compares tokens is safe from
// that. Otherwise choose a short TTL.
//
// Only plain exclusive leases linger: of one key, not of [Engine.Once], without [WithMinHold], and
// not changed or carried to another process. None lingers while the store cannot hear that it is
// wanted, or while the circuit is open. While a lease lingers, it is renewed, and
// [Engine.Inspect] shows it as held (driver.Holder.Lingers), by the rule and trace that asked the
// store. [Engine.Close] gives it back. [WithMaxLingering] bounds how many linger.
//
// d must be 0 to 24 h, otherwise the option is an [*OptionError]. 0 means that leases do not linger;
// that is the default. A store that cannot tell that a lease is wanted gives an error that matches
// errors.ErrUnsupported, before any I/O.
func WithLinger(d time.Duration) Option {
	return option(func(s *settings) error {
		if d < 0 || d > driver.MaxTTL {
			return &OptionError{Option: "WithLinger", Value: d, Want: "0 to 24h"}
		}
		s.linger = d
		return nil
	})
}

// WithMaxLingering bounds how many leases linger in the engine ([WithLinger]), because each is
// renewed, and all of them may have to go back at one moment. One more goes back to the store when
// it is released. So it does while as many releases are still owed.
//
// n must be 1 or more, otherwise the option is an [*OptionError]. Default: 10000.
func WithMaxLingering(n int) EngineOption {
	return engineOption(func(c *engineConfig) error {
		c.maxLingering = n
		return driver.CheckOption(n >= 1, "WithMaxLingering", n, "1 or more")
	})
}

// fitLinger refuses a store that cannot tell that a lease is wanted.
func (s *settings) fitLinger(store driver.Description) error {
	if s.linger > 0 && store.OnWanted == nil {
		return &driver.UnsupportedError{Feature: "telling that a lease is wanted (WithLinger)"}
	}
	return nil
}

// linger keeps g, which its holder has released just now and nobody was handed, and reports whether
// it did.
//
// A caller that has joined the line since then may have looked for g too early, and may be asking
// the store by now. So g goes back if anybody is in line. A caller that joins later finds g.
func (l *Lease) linger(g handoff.Grant, now time.Time) bool {
	if g.Origin == nil {
		return false
	}
	e, key := l.engine, l.Key()
	if d := g.MayLinger(l.terms.linger, now); d > 0 && !e.backend().circuit.IsOut(key) && e.debts.n.Load() < int64(e.cfg.maxLingering) {
		kept, ok := e.backend().lingers.Keep(g, l.terms.rule, now, d)
		if ok && (!e.lines.Awaited(key) || !e.backend().lingers.Withdraw(kept)) {
			e.tellLingered(g, l.terms.rule, observe.LingerBegun, 0)
			return true
		}
	}
	e.backend().lingers.Forget(key, g.Owner)
	return false
}

// takeLingering gives the request the lease that lingers on its key, and reports whether there was
// one that suits it. Leases that do not are given back: the store would name this process as the
// holder.
func (r *request) takeLingering() bool {
	e := r.engine
	if e.backend().circuit.IsOut(r.sent.Claims[0].Key) {
		return false // callers are refused, except one that tries the store
	}
	for _, c := range r.sent.Claims {
		left, ok := e.backend().lingers.Take(c.Key)
		if !ok {
			continue
		}
		g, suits := left.Grant.Taken(r.waiter.HeirTTL, left.At)
		if !suits || left.Over || left.Lost != nil || g.Origin.Epoch != e.backend().lingers.Epoch() {
			e.returnLeft(left, observe.LingerOver)
			continue
		}
		g.Heritable = false // the line decides about the next hand-off
		r.waiter.Got.Grant, r.answer = g, left.At
		e.tellLingered(g, left.Rule, observe.LingerTaken, left.At.Sub(left.Began))
		return true
	}
	return false
}

// wanted is the function that the store tells that a lease is in somebody's way. It does not wait.
func (e *Engine) wanted(key, owner string) {
	reg := e.life.register(key)
	if reg.enter() != nil {
		return // Close gives all of them back
	}
	defer reg.leave() // until then, Close waits for what is tidied up
	if key != "" {
		if left, ok := e.backend().lingers.Want(key, owner); ok {
			e.returnLeft(left, observe.LingerWanted)
		}
		return
	}
	keys := e.backend().lingers.Missed()
	e.life.tidying.Go(func() {
		for _, key := range keys {
			if left, ok := e.backend().lingers.Stale(key); ok {
				e.returnLeft(left, observe.LingerMissed)
			}
		}
	})
}

// returnLeft gives a lease back that lingers no more, without making anybody wait, and tells the
// hooks. The store need not be told of a lease that it has taken away. It is told of one that ran
// out: see abandon.
func (e *Engine) returnLeft(left linger.Left, how observe.LingerState) {
	var lost *LeaseLostError
	urgent := how == observe.LingerWanted
	owed := true
	if errors.As(left.Lost, &lost) {
		how, owed = observe.LingerLost, lost.Reason == driver.LossExpired || lost.Reason == driver.LossSuspended
	} else if left.Over {
		how = observe.LingerOver
	}
	e.backend().lingers.Forget(left.Grant.Claims[0].Key, left.Grant.Owner)
	e.tellLingered(left.Grant, left.Rule, how, time.Since(left.Began))
	if owed {
		e.debts.owe(context.Background(), left.Grant, left.Rule, urgent)
	}
}

func (e *Engine) tellLingered(g handoff.Grant, rule string, how observe.LingerState, stayed time.Duration) {
	if e.hooks != nil {
		e.hooks.lingered(observe.Linger{Claims: e.showClaims(g.Claims), Owner: g.Owner, Rule: rule, Store: e.backend().about.Name, State: how, Stayed: stayed})
	}
}
