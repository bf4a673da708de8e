package poll

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/console/internal/band"
	"github.com/keyturn/keyturn/console/internal/hot"
	"github.com/keyturn/keyturn/core/driver"
)

const (
	// mostRows bounds the memory: 50 MiB with long keys. Keys beyond that are counted only.
	mostRows = 200_000
	// mostBands is how many keys have a history beyond their present lease: 6 MiB at most.
	mostBands = 512
)

// seen is what the poller has seen. The poller's mutex guards it.
type seen struct {
	Status
	reach time.Duration
	rows  map[string]*Row
	// opened are the keys that somebody looks at until then. onRecord are those of them that are only on
	// record. Of the others, of which there may be very many, nothing is kept.
	opened   map[string]time.Time
	onRecord map[string]*Row
	bands    map[string]*history
	hot      [kinds]hot.Sketch

	since    time.Time // the first look of this run
	turn     uint64    // of the opened keys
	recorded int       // keys that are only on record, of this sweep so far
}

// history is a band and when something about it was last of interest.
type history struct {
	band.Band
	touched time.Time
}

func (s *seen) init(reach time.Duration) {
	s.reach = reach
	s.rows, s.bands = make(map[string]*Row), make(map[string]*history)
	s.opened, s.onRecord = make(map[string]time.Time), make(map[string]*Row)
}

// begin begins a run. What an older one has seen of the present is out of date.
func (s *seen) begin(at time.Time) {
	clear(s.rows)
	clear(s.onRecord)
	if s.Started.IsZero() {
		s.Started = at
	}
	s.since, s.SweptAt, s.Err, s.recorded = at, time.Time{}, nil, 0
}

// listed takes a sample from the list.
func (s *seen) listed(at time.Time, info driver.LockInfo) {
	if s.Err == errSilent {
		s.Err = nil
	}
	if len(info.Holders) == 0 && len(info.Waiters) == 0 {
		s.recorded++
	}
	s.add(at, info)
}

// add takes a sample of a key.
func (s *seen) add(at time.Time, info driver.LockInfo) {
	at = at.Truncate(time.Millisecond) // as rows keep it: otherwise moments would drift
	old := s.rows[info.Key]
	if old != nil && old.At().After(at) && old.At().Sub(at) < patience {
		return // two looks at a time; if it is more, the clock was set back
	}
	settle(old, at, info)
	changed := s.count(old, at, info)
	s.history(at, info, changed)
	delete(s.onRecord, info.Key)
	if len(info.Holders) == 0 && len(info.Waiters) == 0 {
		delete(s.rows, info.Key)
		if _, is := s.opened[info.Key]; is && info.Record != nil {
			s.onRecord[info.Key] = NewRow(at, info)
		}
		return
	}
	if old != nil || len(s.rows) < mostRows {
		s.rows[info.Key] = NewRow(at, info)
	}
}

// count counts what the sample adds to the amounts of the key. It reports whether the key has changed
// hands.
func (s *seen) count(old *Row, at time.Time, info driver.LockInfo) (changed bool) {
	last := s.since
	if s.SweptAt.After(last) { // it was free then, or there is no room for its row
		last = s.SweptAt
	}
	var owner string
	var token uint64
	if old != nil {
		last = old.At()
		owner, token = old.holder()
	}
	var held, waited time.Duration
	for _, h := range info.Holders {
		held = max(held, min(h.HeldFor, at.Sub(last)))
	}
	for _, w := range info.Waiters {
		waited += min(w.Waited, at.Sub(last))
	}
	if len(info.Holders) > 0 {
		h := info.Holders[0]
		// A key that was not seen before may have been held all the time.
		changed = owner != "" && (h.Owner != owner || h.Token != token) || old == nil && h.HeldFor < at.Sub(s.since)
	}
	s.hot[Held].Add(info.Key, at, held.Seconds())
	s.hot[Waited].Add(info.Key, at, waited.Seconds())
	if changed {
		s.hot[Changed].Add(info.Key, at, 1)
	}
	return changed
}

// history adds the sample to the key's band. If there are too many, one that was of interest longest ago
// gives way.
func (s *seen) history(at time.Time, info driver.LockInfo, changed bool) {
	h := s.bands[info.Key]
	interesting := changed || len(info.Waiters) > 0
	switch {
	case h != nil:
	case len(info.Holders)+len(info.Waiters) == 0:
		return
	case len(s.bands) >= mostBands && !interesting:
		return
	default:
		if len(s.bands) >= mostBands {
			s.giveWay()
		}
		h = &history{Band: band.Band{Reach: s.reach}}
		s.bands[info.Key] = h
	}
	h.Add(at, info)
	if interesting {
		h.touched = at
	}
}

// giveWay drops the band of the least interest among some: to look at all of them each time takes too long.
func (s *seen) giveWay() {
	const some = 16 // a map's order is another one each time
	oldest, n := "", 0
	for key, h := range s.bands {
		if n++; n > some {
			break
		}
		if oldest == "" || h.touched.Before(s.bands[oldest].touched) {
			oldest = key
		}
	}
	delete(s.bands, oldest)
}

// swept ends a sweep: the keys that it has not met are free.
func (s *seen) swept(began, at time.Time, err error) {
	if err != nil {
		s.recorded = 0
		s.failed(at, err)
		return
	}
	for key, row := range s.rows {
		if row.At().Before(began.Truncate(time.Millisecond)) || row.At().Sub(at) > patience {
			delete(s.rows, key)
		}
	}
	// A key that a long sweep has not met was free at some moment of it, and nobody knows when.
	if at.Sub(began) <= s.reach {
		for key, h := range s.bands {
			if s.rows[key] == nil {
				h.Add(at, driver.LockInfo{Key: key})
			}
		}
	}
	s.Records, s.recorded, s.SweptAt, s.SweepTook = s.recorded, 0, at, at.Sub(began)
	s.Err = nil
}

func (s *seen) failed(at time.Time, err error) {
	if s.Err == nil {
		s.ErrSince = at
	}
	s.Err = err
}

func (s *seen) published(at time.Time) {
	s.Tick++
	s.At = at
	s.Contended, s.Waiters = 0, 0
	for _, r := range s.rows {
		if n, _ := r.Waiters(); n > 0 {
			s.Contended++
			s.Waiters += n
		}
	}
}

// open notes that somebody looks at key until then. If too many are open, another one gives way.
func (s *seen) open(key string, until time.Time) {
	for other := range s.opened {
		if _, again := s.opened[key]; again || len(s.opened) < mostOpened {
			break
		}
		delete(s.opened, other)
		delete(s.onRecord, other)
	}
	s.opened[key] = until
}

// shut forgets the keys that nobody looks at any more.
func (s *seen) shut(now time.Time) {
	for key, until := range s.opened {
		if now.After(until) {
			delete(s.opened, key)
			delete(s.onRecord, key)
		}
	}
}

// focus chooses the keys to look at by name: those that somebody has opened, then those with the longest
// waits, then those that changed hands last. If very many are open, they take turns, and leave a quarter to the
// others.
func (s *seen) focus(most int) []string {
	keys := slices.Sorted(maps.Keys(s.opened))
	if turn := most - most/4; len(keys) > turn {
		first := int(s.turn * uint64(turn) % uint64(len(keys)))
		keys = append(keys[first:], keys[:first]...)[:turn]
		s.turn++
	}
	if len(s.rows)+s.Records <= sweepMost { // the list shows them all, each time
		return keys
	}
	type candidate struct {
		key     string
		waited  time.Duration
		touched time.Time
	}
	var all []candidate
	for key, h := range s.bands {
		c := candidate{key: key, touched: h.touched}
		if row := s.rows[key]; row != nil {
			_, c.waited = row.Waiters()
		}
		if _, is := s.opened[key]; !is && !c.touched.IsZero() {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.waited, a.waited), b.touched.Compare(a.touched), strings.Compare(a.key, b.key))
	})
	for _, c := range all {
		keys = append(keys, c.key)
	}
	return keys[:min(len(keys), most)]
}
