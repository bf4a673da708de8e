package counters

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/refusal"
)

// mostRules bounds the series: a program that names a rule after each key must not run out of memory.
const mostRules = 1024

// The metrics.
const (
	wait       = "keyturn_wait_duration_seconds"
	hold       = "keyturn_hold_duration_seconds"
	conflicts  = "keyturn_conflicts_total"
	duplicates = "keyturn_duplicates_total"
	losses     = "keyturn_losses_total"
	unlocked   = "keyturn_unlocked_total"

	rehearsal = "" // a call of a shadow rule that waited, or was refused by its record: LogShadows alone tells of it
)

// labels name a series.
type labels struct {
	metric, rule, store string
	shadow              bool
	outcome             string
}

// amount is what a series has: how many, and of durations the sum.
type amount struct {
	count   uint64
	seconds float64
}

// Counters are the counts of one or several engines. Make them with [New]. They are safe for concurrent
// use.
type Counters struct {
	mu     sync.Mutex
	rules  map[string]bool
	series map[labels]amount
}

// New returns counters that have counted nothing.
func New() *Counters { return &Counters{rules: make(map[string]bool), series: make(map[labels]amount)} }

func (c *Counters) add(l labels, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.rules[l.rule] {
		if len(c.rules) >= mostRules {
			l.rule = "_OTHER"
		}
		c.rules[l.rule] = true
	}
	a := c.series[l]
	c.series[l] = amount{a.count + 1, a.seconds + took.Seconds()}
}

// one is a series with its amount.
type one struct {
	labels
	amount
}

// all returns the series in order.
func (c *Counters) all() []one {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []one
	for l, a := range c.series {
		if l.metric != rehearsal {
			list = append(list, one{l, a})
		}
	}
	slices.SortFunc(list, func(a, b one) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.rule, b.rule), cmp.Compare(a.store, b.store),
			cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.value(), b.value()))
	})
	return list
}

// value is the label keyturn_shadow.
func (l labels) value() string {
	if l.shadow {
		return "true"
	}
	return ""
}

// asking is a request under way.
type asking struct {
	began   time.Time
	blocked bool // counted as a conflict
}

// The keys of a context name the counters, as the hooks of others may count the same request.
type (
	askingKey struct{ c *Counters }
	heldKey   struct{ c *Counters }
)

// Hooks returns the hooks for core.WithHooks. Several engines may share them.
func (c *Counters) Hooks() observe.Hooks {
	of := func(metric string, a observe.Acquisition) labels {
		return labels{metric: metric, rule: a.Rule, store: a.Store, shadow: a.Shadow}
	}
	return observe.Hooks{
		AcquireStart: func(ctx context.Context, _ observe.Acquisition) context.Context {
			return context.WithValue(ctx, askingKey{c}, &asking{began: time.Now()})
		},
		Blocked: func(ctx context.Context, a observe.Acquisition, _ driver.HeldError, _ int) {
			if r, ok := ctx.Value(askingKey{c}).(*asking); ok && !r.blocked {
				r.blocked = true
				c.add(of(conflicts, a), 0)
				if a.Shadow && a.Wait {
					c.add(of(rehearsal, a), 0)
				}
			}
		},
		AcquireEnd: func(ctx context.Context, a observe.Acquisition, lease observe.Lease, err error) {
			l := of(wait, a)
			l.outcome = acquired(lease, err)
			took := time.Duration(0)
			if r, ok := ctx.Value(askingKey{c}).(*asking); ok {
				took = time.Since(r.began)
			}
			c.add(l, took)
		},
		HoldStart: func(ctx context.Context, _ observe.Lease) context.Context {
			return context.WithValue(ctx, heldKey{c}, time.Now())
		},
		HoldEnd: func(ctx context.Context, lease observe.Lease, err error) {
			l := labels{metric: hold, rule: lease.Rule(), store: lease.Store(), shadow: lease.Shadow(), outcome: ended(err)}
			began, _ := ctx.Value(heldKey{c}).(time.Time)
			c.add(l, time.Since(began))
			if l.outcome == "lost" {
				l.metric, l.outcome = losses, ""
				c.add(l, 0)
			}
		},
		OnceEnd: func(_ context.Context, x observe.Execution, out observe.Outcome, err error) {
			l := labels{metric: duplicates, rule: x.Rule, store: x.Store, shadow: x.Shadow}
			switch {
			case out.Duplicate:
				c.add(l, 0)
			case x.Shadow && refusal.Of(err) == refusal.FingerprintMismatch:
				l.metric, l.outcome = rehearsal, "mismatch"
				c.add(l, 0)
			}
		},
		Unlocked: func(_ context.Context, a observe.Acquisition, _ error) { c.add(of(unlocked, a), 0) },
	}
}
