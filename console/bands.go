package console

import (
	"fmt"
	"html/template"
	"time"

	"github.com/keyturn/keyturn/console/internal/band"
	"github.com/keyturn/keyturn/console/internal/poll"
)

// bandModel is a band for its template. Its unit along the time is a second since the poller's first look, so
// that what is drawn stays where it is, and only the view moves.
type bandModel struct {
	ID, Label     string
	Window        int // seconds
	From          string
	Lanes, Height int
	Live          bool
	Bars          []bar
}

type bar struct {
	X, W  string
	Y, H  int
	Class string
	// Open: the lease is in force, as far as is known, so the bar reaches to the present.
	Open bool
	Text string // what it is, for people who point at it; "": not said
}

const (
	rowWindow = 5 * time.Minute
	keyWindow = 10 * time.Minute
	laneH     = 10
)

// bandOf draws who had a key in the last window. detail also says it in words.
func (c *Console) bandOf(l look, id, key string, window time.Duration, detail bool) template.HTML {
	begin := l.clock.now.Add(-window)
	// In whole minutes: the bar of a lease that is older than the band would otherwise begin elsewhere each time.
	spans := c.poll.Spans(key, begin.Add(-time.Minute).Truncate(time.Minute))
	lanes, n := band.Lanes(spans, 4)
	origin := l.status.Started
	m := bandModel{
		ID: id, Window: int(window.Seconds()), From: seconds(begin.Sub(origin)), Lanes: n, Height: n * laneH, Live: l.clock.live,
		Label: "Who had it in the last " + span(window),
	}
	for i, s := range spans {
		b := bar{X: seconds(s.From.Sub(origin)), W: seconds(max(s.To.Sub(s.From), window/600)), Y: lanes[i] * laneH, H: laneH}
		b.Open = l.status.Err == nil && l.status.At.Sub(s.To) <= c.reach()
		switch {
		case s.Free:
			b.Class, b.Y, b.H = "free", 0, m.Height
		case s.Lingers:
			b.Class, b.Y, b.H = c.colour(s.Process)+" lingers", b.Y+laneH/2-2, 4
		default:
			b.Class = c.colour(s.Process)
		}
		if b.Open {
			b.W = seconds(l.clock.now.Sub(s.From))
			if l.clock.live {
				b.W = "0" // the script says
			}
		}
		if detail {
			b.Text = describe(s)
		}
		m.Bars = append(m.Bars, b)
	}
	return c.write("band", m)
}

// reach is how far apart samples may be that follow each other.
func (c *Console) reach() time.Duration { return poll.Reach(c.cfg.interval) }

func describe(s band.Span) string {
	const form = "15:04:05"
	// In UTC, as logs are: the viewer may be elsewhere than this process.
	when := s.From.UTC().Format(form) + " to " + s.To.UTC().Format(form) + " UTC"
	switch {
	case s.Free:
		return "free, " + when
	case s.Lingers:
		return s.Process.Label + ", perhaps idle, " + when
	}
	return s.Process.Label + ", " + when
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
