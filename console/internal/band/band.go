package band

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/who"
)

// Span is a time in which one lease was in force, or in which the key was free.
type Span struct {
	From, To time.Time
	// Free: samples that follow each other closely found no holder. The zero Process goes with it.
	Free    bool
	Process who.Process
	Owner   string
	Token   uint64
	// Lingers: the process may have kept the lease although nobody used it.
	Lingers bool
}

// Band is the history of one key. The zero value is empty. It is not for concurrent use.
type Band struct {
	// Reach is how far apart two samples may be to say that a key which was free in both was free
	// in between.
	Reach time.Duration

	spans []Span    // in the order in which their leases were first seen
	last  time.Time // the last sample; zero: there is none
	free  bool      // no holder in the last sample
}

// most is how many spans a band keeps: 12 KiB.
const most = 96

// Add adds what a sample has shown at a moment. Samples come in order of time.
func (b *Band) Add(at time.Time, info driver.LockInfo) {
	near := !b.last.IsZero() && at.Sub(b.last) <= b.Reach
	for _, h := range info.Holders {
		b.hold(at, near, h, info.Mode != driver.ModeExclusive)
	}
	free := len(info.Holders) == 0
	if free && b.free && near {
		b.stayFree(at)
	}
	b.last, b.free = at, free
	b.spans = slices.Delete(b.spans, 0, max(0, len(b.spans)-most)) // the oldest
}

// hold adds a lease, or makes its span longer.
func (b *Band) hold(at time.Time, near bool, h driver.Holder, shared bool) {
	for i := len(b.spans) - 1; i >= 0; i-- {
		s := &b.spans[i]
		if s.Free || s.Owner != h.Owner || s.Token != h.Token {
			continue
		}
		// A value that a foreign client uses each time does not show that it is the same lock.
		if s.Process.Foreign && h.HeldFor == 0 && !near {
			break
		}
		s.To, s.Lingers = at, h.Lingers
		return
	}
	from := at.Add(-h.HeldFor)
	if !shared && from.Before(b.last) { // all that is known ends there; the way of the sample took some milliseconds
		from = b.last
	}
	b.spans = append(b.spans, Span{From: from, To: at, Process: who.Of(h.Owner), Owner: h.Owner, Token: h.Token, Lingers: h.Lingers})
}

func (b *Band) stayFree(at time.Time) {
	if n := len(b.spans); n > 0 && b.spans[n-1].Free && b.spans[n-1].To.Equal(b.last) {
		b.spans[n-1].To = at
		return
	}
	b.spans = append(b.spans, Span{From: b.last, To: at, Free: true})
}

// Spans returns what is known of the time after from, in no particular order. The caller gets a
// copy.
func (b *Band) Spans(from time.Time) []Span {
	var shown []Span
	for _, s := range b.spans {
		if !s.To.After(from) {
			continue
		}
		if s.From.Before(from) {
			s.From = from
		}
		shown = append(shown, s)
	}
	return shown
}

// Lanes gives each span a lane, so that spans of one lane do not overlap, and returns the lanes
// and how many there are. At most limit lanes are used: what does not fit shares the last one.
func Lanes(spans []Span, limit int) (lanes []int, n int) {
	lanes = make([]int, len(spans))
	ends := make([]time.Time, 0, limit)
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return spans[a].From.Compare(spans[b].From) })
	for _, i := range order {
		lane := slices.IndexFunc(ends, func(end time.Time) bool { return !end.After(spans[i].From) })
		switch {
		case lane >= 0:
		case len(ends) < limit:
			ends = append(ends, time.Time{})
			lane = len(ends) - 1
		default:
			lane = limit - 1
		}
		lanes[i], ends[lane] = lane, spans[i].To
	}
	return lanes, max(1, len(ends))
}
