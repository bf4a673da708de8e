package console

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/who"
)

// pages returns the pages in the order of the links to them, then the one of a key, to which there is none.
func (c *Console) pages() []*page {
	all := []*page{
		{Name: "locks", Title: "Locks", build: c.locks, fixed: filterForm},
		{Name: "waits", Title: "Waits", build: c.waits},
		{Name: "hot", Title: "Hot keys", build: c.hot, fixed: windows},
		{Name: "processes", Title: "Processes", build: c.processes},
	}
	if c.cfg.rules != nil {
		all = append(all, &page{Name: "rules", Title: "Rules", build: func(look) []list { return nil }, fixed: c.ruleTable})
	}
	return append(all, &page{Name: "key", Title: "Key", build: c.key, fixed: c.keyForms})
}

func (c *Console) pageNamed(name string) *page {
	for _, p := range c.pages() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Href is the page's relative address.
func (p *page) Href() string {
	if p.Name == "locks" {
		return "./"
	}
	return p.Name
}

// head is the part with the numbers, on each page.
func (c *Console) head(l look) list {
	m := struct {
		poll.Status
		ErrFor, Round, Seen template.HTML
		Deadlocks, Hints    int
		Slow                bool
	}{Status: l.status, Deadlocks: len(l.graph.Deadlocks), Hints: len(l.graph.Hints)}
	m.ErrFor = l.clock.since(l.status.ErrSince)
	m.Slow = l.status.SweepTook > 3*c.cfg.interval
	m.Round, m.Seen = template.HTML(span(l.status.SweepTook)), l.clock.since(l.status.SweptAt)
	return list{"head", []part{{ID: "numbers", HTML: c.write("numbers", m)}}}
}

// filter is what the query of the page Locks says.
type filter struct {
	Prefix, Rule string
	Waiting      bool
	Limit        int
}

const (
	rowsDefault = 500
	rowsMost    = 10_000
)

func parseFilter(query url.Values) filter {
	f := filter{Prefix: query.Get("prefix"), Rule: query.Get("rule"), Waiting: query.Get("waiting") != "", Limit: rowsDefault}
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		f.Limit = min(n, rowsMost)
	}
	return f
}

func filterForm(_ *http.Request, l look) any { return parseFilter(l.query) }

func (f filter) passes(r *poll.Row) bool {
	if !strings.HasPrefix(r.Key, f.Prefix) {
		return false
	}
	if n, _ := r.Waiters(); f.Waiting && n == 0 {
		return false
	}
	return f.Rule == "" || r.HasRule(f.Rule)
}

// more is the address of the page with twice the rows.
func (f filter) more() string {
	q := url.Values{"limit": {strconv.Itoa(min(2*f.Limit, rowsMost))}}
	if f.Prefix != "" {
		q.Set("prefix", f.Prefix)
	}
	if f.Rule != "" {
		q.Set("rule", f.Rule)
	}
	if f.Waiting {
		q.Set("waiting", "1")
	}
	return "./?" + q.Encode()
}

// rowModel is a row for its template.
type rowModel struct {
	ID, Key       string
	Mode          string // "" if it is exclusive
	Process       *who.Process
	Others        int // other holders
	Rule          string
	Lingers       bool
	Held, Left    template.HTML
	Waiters       int
	Longest, Seen template.HTML
	Band          template.HTML
}

func (c *Console) locks(l look) []list {
	f := parseFilter(l.query)
	rows, pass := c.poll.Rows(f.passes, f.Limit)
	parts := make([]part, 0, len(rows))
	for _, r := range rows {
		parts = append(parts, c.lockPart(l, r))
	}
	foot := struct {
		Shown, Pass int
		More        string
		Filtered    bool
		Sweeping    bool
	}{len(rows), pass, "", f.Prefix != "" || f.Rule != "" || f.Waiting, l.status.SweptAt.IsZero()}
	if pass > len(rows) && f.Limit < rowsMost {
		foot.More = f.more()
	}
	return []list{{"rows", parts}, {"foot", []part{{ID: "count", HTML: c.write("count", foot)}}}}
}

// knownRow is a row as it was rendered, and what it was rendered from.
type knownRow struct {
	row                 *poll.Row
	stale, open, outage bool
	minute              int64
	part                part
}

// lockPart renders a row, unless it would be the same as the last time. Of thousands of rows, few are new.
func (c *Console) lockPart(l look, r *poll.Row) part {
	age := l.status.At.Sub(r.At())
	now := knownRow{
		row: r, stale: c.stale(r, l.status.At), open: age <= c.reach(), outage: l.status.Err != nil, minute: l.clock.now.Unix() / 60,
	}
	if was, is := l.known[r.Key]; is {
		now.part = was.part
		if was == now {
			l.fresh[r.Key] = was
			return was.part
		}
	}
	m := c.row(l, r)
	now.part = part{ID: m.ID, HTML: c.write("lock", m), Band: c.bandOf(l, m.ID, r.Key, rowWindow, false)}
	if l.fresh != nil {
		l.fresh[r.Key] = now
	}
	return now.part
}

func (c *Console) row(l look, r *poll.Row) rowModel {
	info := r.Info()
	m := rowModel{ID: elementID("row", r.Key), Key: r.Key}
	m.Band = emptyBand(m.ID)
	if len(info.Holders) > 0 {
		h := info.Holders[0]
		p := who.Of(h.Owner)
		m.Process, m.Rule, m.Lingers, m.Others = &p, h.Rule, h.Lingers, len(info.Holders)-1
		if info.Mode != driver.ModeExclusive {
			m.Mode = info.Mode.String()
		}
		if d := r.HeldFor(); d > 0 {
			m.Held = l.clock.since(r.At().Add(-d))
		}
		if h.Left >= 0 {
			m.Left = l.clock.until(r.At().Add(h.Left))
		}
	}
	if n, longest := r.Waiters(); n > 0 {
		m.Waiters, m.Longest = n, l.clock.since(r.At().Add(-longest))
	}
	if c.stale(r, l.status.At) {
		m.Seen = l.clock.since(r.At())
	}
	return m
}

// stale reports whether a row is so old at a moment that it says when it was seen.
func (c *Console) stale(r *poll.Row, at time.Time) bool {
	return at.Sub(r.At()) > 3*time.Second+2*c.cfg.interval
}
