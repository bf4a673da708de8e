package holdstats

import (
	"math/bits"
	"time"
)

// histogram is a distribution of durations in some 230 bytes. It has four buckets for each
// doubling, from 4 ms to more than a day, so a quantile in this range is at most a quarter too
// long. It forgets: when it has a thousand samples, each bucket is halved. A single sample then
// disappears.
type histogram struct {
	counts [112]uint16
	total  int
}

const fullHistogram = 1000

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	if h.total < fullHistogram {
		return
	}
	h.total = 0
	for i := range h.counts {
		h.counts[i] /= 2
		h.total += int(h.counts[i])
	}
}

// quantile returns a duration that percent of the samples did not exceed: the upper bound of a
// bucket, in whole milliseconds. 0 without samples.
func (h *histogram) quantile(percent int) time.Duration {
	below := 0
	for i, n := range h.counts {
		below += int(n)
		if n > 0 && below*100 >= h.total*percent {
			return boundOf(i)
		}
	}
	return 0
}

// bucketOf returns the bucket of d: the three highest bits of its milliseconds choose it.
func bucketOf(d time.Duration) int {
	ms := uint64(max(0, d-1) / time.Millisecond) // so exactly 4 ms are in the bucket that ends at 4 ms
	if ms < 4 {
		return int(ms)
	}
	shift := bits.Len64(ms) - 3
	return min(4*shift+int(ms>>shift), len(histogram{}.counts)-1)
}

// boundOf returns the longest duration in bucket i.
func boundOf(i int) time.Duration {
	if i < 4 {
		return time.Duration(i+1) * time.Millisecond
	}
	shift := i/4 - 1
	return time.Duration(i%4+5) << shift * time.Millisecond
}
