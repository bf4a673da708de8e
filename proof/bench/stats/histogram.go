// Package stats has the results of a benchmark: histograms of durations, and medians over runs.
package stats

import (
	"encoding/json"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest duration that a histogram distinguishes: no run lasts longer.
const longest = time.Hour

// Histogram counts durations from 0 to an hour; a longer one counts as an hour.
// Recording allocates nothing and takes the same time whatever was recorded, so that
// it does not disturb what it measures. Make one with [NewHistogram]. It is for one
// goroutine at a time: give each its own, and [Histogram.Merge] them.
type Histogram struct {
	hdr *hdrhistogram.Histogram
}

// NewHistogram makes an empty histogram, whose quantiles are off by 1 % at most.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(1, int64(longest), 2)}
}

// Record counts d. A duration below zero counts as zero.
func (h *Histogram) Record(d time.Duration) {
	_ = h.hdr.RecordValue(int64(min(max(d, 0), longest))) // it is in range
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) { h.hdr.Merge(other.hdr) }

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.hdr.TotalCount() }

// Quantile returns the duration that the share q of all durations does not exceed; q is from 0
// to 1. It is 0 if nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	return time.Duration(h.hdr.ValueAtQuantile(100 * q))
}

// MarshalJSON writes what was counted, for another process.
func (h *Histogram) MarshalJSON() ([]byte, error) { return json.Marshal(h.hdr.Export()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var counted hdrhistogram.Snapshot
	if err := json.Unmarshal(text, &counted); err != nil {
		return err
	}
	h.hdr = hdrhistogram.Import(&counted)
	return nil
}
