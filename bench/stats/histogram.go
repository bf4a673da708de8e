// Package stats has the figures that a benchmark ends in: histograms of
// durations, and medians over runs.
package stats

import (
	"encoding/json"
	"math/bits"
	"time"
)

const (
	// subBits: each power of two is cut into 2^subBits steps, so that a quantile
	// is off by 1/64 at most, half a step.
	subBits = 5
	steps   = 1 << subBits
	slots   = (64 - subBits) * steps
)

// Histogram counts durations. Recording allocates nothing and takes the same
// time whatever was recorded, so that it does not disturb what it measures; a
// slice of all durations would. The zero value is empty. It is for one goroutine
// at a time: give each its own, and [Histogram.Merge] them.
type Histogram struct {
	counts [slots]uint64
	total  uint64
}

// Record counts d; what is below zero counts as zero.
func (h *Histogram) Record(d time.Duration) {
	h.counts[slotOf(uint64(max(d, 0)))]++
	h.total++
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.total }

// Quantile returns the duration that the share q of all does not exceed; q from
// 0 to 1. It is 0 when nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q * float64(h.total-1))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return time.Duration(middle(i))
		}
	}
	return 0 // not reached: the counts add up to total
}

// slotOf: values below 2*steps have a slot each, larger ones share one with
// those that agree in the first subBits+1 bits.
func slotOf(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift*steps + int(v>>shift)
}

// middle is the value in the middle of a slot.
func middle(slot int) uint64 {
	shift := max(slot/steps-1, 0)
	low := uint64(slot-shift*steps) << shift
	return low + (uint64(1)<<shift)/2
}

// MarshalJSON writes the slots that are not empty, for another process.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	filled := make(map[int]uint64)
	for i, n := range h.counts {
		if n > 0 {
			filled[i] = n
		}
	}
	return json.Marshal(filled)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var filled map[int]uint64
	if err := json.Unmarshal(text, &filled); err != nil {
		return err
	}
	*h = Histogram{}
	for i, n := range filled {
		if i < 0 || i >= slots {
			continue // no slot of ours
		}
		h.counts[i] = n
		h.total += n
	}
	return nil
}
