package core

import (
	"sync/atomic"
	"time"
)

// holds estimates how long this engine's leases are held, as a moving average,
// so that a refused caller is told to come back when it has a chance: the
// remaining TTL says when a dead holder's lease ends, and the living release
// long before.
type holds struct {
	average atomic.Int64 // nanoseconds; 0: nothing known
}

// add takes in one hold. A lost race drops a sample, which does no harm.
func (h *holds) add(d time.Duration) {
	old := h.average.Load()
	if old == 0 {
		h.average.CompareAndSwap(0, max(int64(d), 1))
		return
	}
	h.average.CompareAndSwap(old, max(old+(int64(d)-old)/8, 1))
}

// retryAfter combines the estimate with what the store knows of the holder.
func (h *holds) retryAfter(remaining time.Duration) time.Duration {
	estimate := time.Duration(h.average.Load())
	switch {
	case estimate == 0:
		return max(remaining, 0)
	case remaining <= 0: // the store can't say
		return estimate
	default:
		return min(estimate, remaining)
	}
}
