package core

import (
	"hash/maphash"
	"sync"
	"time"
)

// holds estimates how long leases are held, so that a refused caller is told to
// come back when there is a chance: the remaining TTL says when a dead holder's
// lease ends, and the living release long before. And so that a TTL can be made
// to fit; see [WithAdaptiveTTL].
//
// There is an estimate for the engine, one for each rule, and an average for
// each of the keys that callers are refused, in a table of fixed size with one
// place per hash. A refusal takes the place, a hold only fills an empty one: so
// the keys that matter stay, however many others come and go without anybody
// waiting for them.
type holds struct {
	seed maphash.Seed

	mu     sync.Mutex
	engine ruleHolds
	byRule map[string]*ruleHolds
	byKey  [heldKeys]keyHolds
}

const (
	heldKeys  = 1024 // told apart at most: 24 KiB per engine
	heldRules = 256  // 64 KiB; further ones share the engine's estimate
)

// ruleHolds is the estimate for the leases of one rule.
type ruleHolds struct {
	average
	histogram
}

type keyHolds struct {
	key  uint64 // its hash; two keys of one hash share an estimate, which does no harm
	used bool
	average
}

// average is an exponentially moving one: the last sample weighs an eighth.
type average struct {
	d time.Duration // 0: nothing known
}

func (a *average) add(d time.Duration) {
	if a.d == 0 {
		a.d = max(d, 1)
		return
	}
	a.d = max(a.d+(d-a.d)/8, 1)
}

// place is where key's estimate is, if it has one. Needs mu.
func (h *holds) place(key string) (*keyHolds, uint64) {
	hash := maphash.String(h.seed, key)
	return &h.byKey[hash%heldKeys], hash
}

// of is the estimate for a rule: the engine's for no rule, and for those that
// there was no room for; nil if nothing is known. Needs mu.
func (h *holds) of(rule string) *ruleHolds {
	if r := h.byRule[rule]; r != nil {
		return r
	}
	if rule == "" || len(h.byRule) >= heldRules {
		return &h.engine
	}
	return nil
}

// add takes in that claims were held for so long, and whether they were
// released then. A lease that was lost would have been held for longer: that is
// no measure for when to come back, but it is one for the TTL.
func (h *holds) add(rule string, claims []Claim, d time.Duration, released bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of(rule)
	if r == nil {
		if h.byRule == nil {
			h.byRule = make(map[string]*ruleHolds)
		}
		r = &ruleHolds{}
		h.byRule[rule] = r
	}
	r.histogram.add(d)
	if r != &h.engine {
		h.engine.histogram.add(d)
	}
	if !released {
		return
	}
	r.average.add(d)
	if r != &h.engine {
		h.engine.average.add(d)
	}
	for _, c := range claims {
		p, hash := h.place(c.Key)
		if !p.used {
			p.used, p.key = true, hash
		}
		if p.key == hash {
			p.add(d)
		}
	}
}

// retryAfter combines the estimate for key, or for the rule or all if nothing is
// known of it, with what is known of the holder: for how long it has had the key,
// and what is left of its lease. 0: not known.
//
// A holder that has taken longer than the average is no average one: the longer it
// has taken, the longer it is expected to take still. As much again is right where
// holds have a long tail, which is where this happens.
func (h *holds) retryAfter(rule, key string, heldFor, remaining time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	estimate := h.engine.d
	if r := h.of(rule); r != nil && r.d != 0 {
		estimate = r.d
	}
	if p, hash := h.place(key); key != "" {
		if !p.used || p.key != hash {
			*p = keyHolds{key: hash, used: true}
		}
		if p.d != 0 {
			estimate = p.d
		}
	}
	if estimate == 0 { // no lease has ended yet
		return max(remaining, 0)
	}
	estimate = max(estimate, heldFor)
	if remaining <= 0 { // the store can't say
		return estimate
	}
	return min(estimate, remaining)
}
