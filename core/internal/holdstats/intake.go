package holdstats

import (
	"sync"
	"sync/atomic"
	"time"
)

// sample is how long one lease of a rule held its key.
type sample struct {
	rule     string
	key      uint64 // the key's hash
	d        time.Duration
	released bool // otherwise it was lost
}

// intake gathers the samples of some keys, under a mutex of its own.
type intake struct {
	mu      sync.Mutex
	samples [intakeSize]sample
	n       atomic.Int32 // of the samples; written with mu

	_ [64]byte // keeps the next intake's mutex off this one's cache line
}

const (
	intakeCount = 16
	intakeSize  = 16 // so one lease in 16 takes the mutex that all keys share; 12 KiB in all
)

func (s *stats) intakeOf(hash uint64) *intake { return &s.intakes[hash/mostKeys%intakeCount] }

// add reports false if there is no room for x.
func (in *intake) add(x sample) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := in.n.Load()
	if n == intakeSize {
		return false
	}
	in.samples[n] = x
	in.n.Store(n + 1)
	return true
}

// take returns the samples, and forgets them.
func (in *intake) take() (samples [intakeSize]sample, n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.samples, int(in.n.Swap(0))
}
