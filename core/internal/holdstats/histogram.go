package holdstats

import (
	"math/bits"
	"time"
)

// histogram is a distribution of durations in some 230 bytes. It has four buckets
// to each doubling, from 4 ms to a day and more, so that a quantile is at most a
// quarter too long there. It forgets: whenever it has a thousand samples each
// bucket is halved, which also drops what happened once.
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

// quantile is a duration that percent of the samples did not pass: the upper
// bound of a bucket, in whole milliseconds. 0 without samples.
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

// bucketOf is the bucket of d, by the three highest bits of its milliseconds.
func bucketOf(d time.Duration) int {
	ms := uint64(max(0, d-1) / time.Millisecond) // so that 4 ms are not more than 4 ms
	if ms < 4 {
		return int(ms)
	}
	shift := bits.Len64(ms) - 3
	return min(4*shift+int(ms>>shift), len(histogram{}.counts)-1)
}

// boundOf is the longest duration in bucket i.
func boundOf(i int) time.Duration {
	if i < 4 {
		return time.Duration(i+1) * time.Millisecond
	}
	shift := i/4 - 1
	return time.Duration(i%4+5) << shift * time.Millisecond
}
