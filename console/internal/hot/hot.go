package hot

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

const (
	// most is how many keys a sketch has: about 100 KiB with their buckets.
	most = 256
	// minutes is how far back the buckets go.
	minutes = 60
)

// Sketch counts an amount by key. The zero value is empty. It is not for concurrent use.
type Sketch struct {
	entries map[string]*entry
	least   queue
}

type entry struct {
	key string
	// total may be too much by over, which others had before in the same place.
	total, over float64
	buckets     [minutes]float32
	newest      int64 // the minute of the newest bucket
	at          int   // in the queue
}

// Add adds an amount for key at a moment.
func (s *Sketch) Add(key string, at time.Time, amount float64) {
	if amount <= 0 {
		return
	}
	e := s.entries[key]
	switch {
	case e != nil:
	case len(s.entries) < most:
		if s.entries == nil {
			s.entries = make(map[string]*entry)
		}
		e = &entry{key: key}
		heap.Push(&s.least, e)
		s.entries[key] = e
	default: // in place of the smallest
		e = s.least[0]
		delete(s.entries, e.key)
		*e = entry{key: key, total: e.total, over: e.total, at: e.at}
		s.entries[key] = e
	}
	e.total += amount
	heap.Fix(&s.least, e.at)
	minute := at.Unix() / 60
	e.turn(minute)
	e.buckets[minute%minutes] += float32(amount)
}

// turn empties the buckets of minutes that have passed since the newest one.
func (e *entry) turn(minute int64) {
	if minute-e.newest >= minutes {
		e.buckets = [minutes]float32{}
		e.newest = minute
	}
	for e.newest < minute {
		e.newest++
		e.buckets[e.newest%minutes] = 0
	}
}

// Key is a key and its amount.
type Key struct {
	Key    string
	Amount float64
}

// Top returns the keys with the greatest amounts since a moment, n at most. The amounts are at
// least so great: what may have been another key's does not count. Since is taken to the full
// minute and reaches back an hour; the zero time means since the beginning.
func (s *Sketch) Top(now, since time.Time, n int) []Key {
	var top []Key
	for _, e := range s.entries {
		amount := e.total - e.over
		if !since.IsZero() {
			amount = e.sum(now.Unix()/60, since.Unix()/60)
		}
		if amount > 0 {
			top = append(top, Key{e.key, amount})
		}
	}
	slices.SortFunc(top, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), strings.Compare(a.Key, b.Key))
	})
	return top[:min(n, len(top))]
}

func (e *entry) sum(now, since int64) float64 {
	e.turn(now)
	var sum float32
	for minute := max(since, now-minutes+1); minute <= now; minute++ {
		sum += e.buckets[minute%minutes]
	}
	return float64(sum)
}

// queue has the entry with the least in front.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].total < q[j].total }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

func (q *queue) Push(x any) {
	e := x.(*entry)
	e.at = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any { panic("entries are replaced, never taken out") }
