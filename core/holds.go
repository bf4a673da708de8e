package core

import (
	"hash/maphash"
	"sync"
	"time"
)

// holds estimates how long leases are held, so that a refused caller is told to
// come back when there is a chance: the remaining TTL says when a dead holder's
// lease ends, and the living release long before.
//
// There is an average for the engine and one for each of the keys that callers
// are refused, in a table of fixed size with one place per hash. A refusal
// takes the place, a hold only fills an empty one: so the keys that matter stay,
// however many others come and go without anybody waiting for them.
type holds struct {
	seed maphash.Seed

	mu     sync.Mutex
	engine average
	byKey  [heldKeys]keyHolds
}

// heldKeys is how many keys are told apart at most: 24 KiB per engine.
const heldKeys = 1024

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

// add takes in that claims were held for so long.
func (h *holds) add(claims []Claim, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine.add(d)
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

// retryAfter combines the estimate for key, or for all if nothing is known of
// it, with what the store knows of the holder.
func (h *holds) retryAfter(key string, remaining time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	estimate := h.engine.d
	if p, hash := h.place(key); key != "" {
		if !p.used || p.key != hash {
			*p = keyHolds{key: hash, used: true}
		}
		if p.d != 0 {
			estimate = p.d
		}
	}
	switch {
	case estimate == 0:
		return max(remaining, 0)
	case remaining <= 0: // the store can't say
		return estimate
	default:
		return min(estimate, remaining)
	}
}
