package hot

import (
	"cmp"
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
type Sketch struct{ entries []entry }

type entry struct {
	key string
	// total may be too much by over, which others had before in the same place.
	total, over float64
	buckets     [minutes]float32
	newest      int64 // the minute of the newest bucket
}

// Add adds an amount for key at a moment.
func (s *Sketch) Add(key string, at time.Time, amount float64) {
	if amount <= 0 {
		return
	}
	e := s.of(key)
	e.total += amount
	minute := at.Unix() / 60
	e.turn(minute)
	e.buckets[minute%minutes] += float32(amount)
}

// of returns the entry of key, which may begin in place of the smallest.
func (s *Sketch) of(key string) *entry {
	least := 0
	for i := range s.entries {
		switch e := &s.entries[i]; {
		case e.key == key:
			return e
		case e.total < s.entries[least].total:
			least = i
		}
	}
	if len(s.entries) < most {
		s.entries = append(s.entries, entry{key: key})
		return &s.entries[len(s.entries)-1]
	}
	e := &s.entries[least]
	*e = entry{key: key, total: e.total, over: e.total}
	return e
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
	for i := range s.entries {
		e := &s.entries[i]
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
