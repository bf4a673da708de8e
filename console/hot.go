package console

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/keyturn/keyturn/console/internal/poll"
)

const hotShown = 20

var hotWindows = []struct {
	Name, Text string
	Length     time.Duration
}{{"5m", "5 minutes", 5 * time.Minute}, {"1h", "1 hour", time.Hour}, {"all", "since the first look", 0}}

// windowOf returns the name of the window that the query asks for, and since when it is.
func windowOf(query url.Values, now time.Time) (name string, since time.Time) {
	chosen := hotWindows[0]
	for _, w := range hotWindows {
		if w.Name == query.Get("window") {
			chosen = w
		}
	}
	if chosen.Length > 0 {
		since = now.Add(-chosen.Length)
	}
	return chosen.Name, since
}

func windows(_ *http.Request, l look) any {
	chosen, _ := windowOf(l.query, l.clock.now)
	return struct {
		Windows any
		Chosen  string
		Since   template.HTML
	}{hotWindows, chosen, l.clock.since(l.status.Started)}
}

type hotModel struct {
	ID, Title, Note string
	Keys            []hotKey
}

type hotKey struct {
	Key, Amount string
	Share       string // of the first one, in percent: the width of the bar
}

func (c *Console) hot(l look) []list {
	_, since := windowOf(l.query, l.clock.now)
	kinds := []struct {
		kind      poll.Kind
		model     hotModel
		formatted func(float64) string
	}{
		{poll.Waited, hotModel{ID: "waited", Title: "Waited for", Note: "time that waiters have waited, together"}, duration},
		{poll.Held, hotModel{ID: "held", Title: "Held", Note: "time for which somebody had the key"}, duration},
		{poll.Changed, hotModel{ID: "changed", Title: "Changed hands", Note: "leases that were seen; there may have been more in between"}, func(n float64) string { return some(int(n), "lease") }},
	}
	var parts []part
	for _, k := range kinds {
		m := k.model
		top := c.poll.Hot(k.kind, since, hotShown)
		for _, one := range top {
			m.Keys = append(m.Keys, hotKey{one.Key, k.formatted(one.Amount), fmt.Sprintf("%.1f", 100*one.Amount/top[0].Amount)})
		}
		parts = append(parts, part{ID: m.ID, HTML: c.write("hot", m)})
	}
	return []list{{"hot", parts}}
}

func duration(s float64) string { return span(time.Duration(s * float64(time.Second))) }
