package console

import (
	"fmt"
	"html/template"
	"math"
	"time"
)

// clock writes times that go on. In a page that is loaded, it writes how long ago a moment was. In what is sent
// to a live page, it writes the moment only, and the page's script counts: so the same row is the same
// text, and is sent once.
type clock struct {
	now  time.Time
	live bool
}

// since writes how long ago at was.
func (c clock) since(at time.Time) template.HTML {
	return c.write("since", at, c.now.Sub(at))
}

// until writes how long it is until at.
func (c clock) until(at time.Time) template.HTML {
	return c.write("until", at, at.Sub(c.now))
}

func (c clock) write(what string, at time.Time, d time.Duration) template.HTML {
	text := ""
	if !c.live {
		text = span(d)
	}
	return template.HTML(fmt.Sprintf(`<time data-%s="%d">%s</time>`, what, at.UnixMilli(), text)) // numbers and our own words
}

// span writes a duration as people say it. The script does the same.
func span(d time.Duration) string {
	s := max(0, d.Seconds())
	if s < 9.95 {
		return fmt.Sprintf("%.1f s", math.Floor(s*10)/10)
	}
	n := int(s)
	switch {
	case n < 60:
		return fmt.Sprintf("%d s", n)
	case n < 3600:
		return fmt.Sprintf("%d min %d s", n/60, n%60)
	case n < 86400:
		return fmt.Sprintf("%d h %d min", n/3600, n%3600/60)
	default:
		return fmt.Sprintf("%d d %d h", n/86400, n%86400/3600)
	}
}
