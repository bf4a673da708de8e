package console

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
	"github.com/keyturn/keyturn/internal/who"
)

// keyModel is what the page of a key shows.
type keyModel struct {
	Key      string
	Mode     string
	Free     bool
	Unknown  bool // the store does not say
	Seen     template.HTML
	Band     template.HTML
	Legend   []who.Process
	Lingers  bool
	Holders  []holderModel
	Waiters  []waiterModel
	More     int // waiters that are not shown
	Record   *recordModel
	Deadlock bool
	Leases   string // the values of the form's boxes, so that the script can say that they are old
}

type holderModel struct {
	Process    who.Process
	Owner      string
	Token      uint64
	Rule       string
	Trace      traceModel
	Held, Left template.HTML
	Lingers    bool
}

type waiterModel struct {
	Nr      int
	Process who.Process
	Mode    string
	Rule    string
	Trace   traceModel
	Waited  template.HTML
}

type recordModel struct {
	Process who.Process
	Size    int
	NotKept bool
	Trace   traceModel
	Left    template.HTML
}

// traceModel is a trace, as a link if it is known where it can be seen.
type traceModel struct{ Text, URL string }

// waitersShown is how many waiters of a key have a row.
const waitersShown = 200

func (c *Console) trace(text string) traceModel {
	m := traceModel{Text: text}
	if id := lockjson.TraceOf(text).TraceID; id != "" {
		m.Text = id
		if c.cfg.traceURL != "" {
			m.URL = strings.Replace(c.cfg.traceURL, placeholder, id, 1)
		}
	}
	return m
}

func (c *Console) key(l look) []list {
	key := l.query.Get("k")
	return []list{{"lock", []part{{ID: "state", HTML: c.write("state", c.keyModel(l, key))}}}}
}

func (c *Console) keyModel(l look, key string) keyModel {
	m := keyModel{Key: key, Band: c.bandOf(l, "key", key, keyWindow, true)}
	for _, s := range c.poll.Spans(key, l.clock.now.Add(-keyWindow)) {
		m.Lingers = m.Lingers || s.Lingers
		if !s.Free && !slices.Contains(m.Legend, s.Process) {
			m.Legend = append(m.Legend, s.Process)
		}
	}
	for _, circle := range l.graph.Deadlocks {
		for _, w := range circle.Waits {
			m.Deadlock = m.Deadlock || w.Key == key
		}
	}
	r := c.poll.Row(key)
	if r == nil { // it is free, or nobody knows
		m.Free, m.Unknown = l.status.Err == nil, l.status.Err != nil
		return m
	}
	info, at := r.Info(), r.At()
	m.Mode, m.Free, m.Leases = info.Mode.String(), len(info.Holders) == 0, leases(info.Holders)
	if c.stale(r, l.status.At) {
		m.Seen = l.clock.since(at)
	}
	for _, h := range info.Holders {
		one := holderModel{Process: who.Of(h.Owner), Owner: h.Owner, Token: h.Token, Rule: h.Rule, Trace: c.trace(h.Trace), Lingers: h.Lingers}
		if h.HeldFor > 0 {
			one.Held = l.clock.since(at.Add(-h.HeldFor))
		}
		if h.Left >= 0 {
			one.Left = l.clock.until(at.Add(h.Left))
		}
		m.Holders = append(m.Holders, one)
	}
	for i, w := range info.Waiters {
		if i == waitersShown {
			m.More = len(info.Waiters) - i
			break
		}
		mode := w.Mode.String()
		if w.Mode == driver.ModePermit {
			mode = fmt.Sprintf("permit of %d", w.Permits)
		}
		m.Waiters = append(m.Waiters, waiterModel{i + 1, who.Of(w.Owner), mode, w.Rule, c.trace(w.Trace), l.clock.since(at.Add(-w.Waited))})
	}
	if rec := info.Record; rec != nil {
		m.Record = &recordModel{who.Of(rec.Owner), rec.Size, rec.ResultNotKept, c.trace(rec.Trace), l.clock.until(at.Add(rec.Left))}
	}
	return m
}

// lease is the value of a box in the form: the lease that was shown.
func lease(h driver.Holder) string { return strconv.FormatUint(h.Token, 10) + " " + h.Owner }

func parseLease(s string) (driver.Holder, bool) {
	token, owner, ok := strings.Cut(s, " ")
	n, err := strconv.ParseUint(token, 10, 64)
	return driver.Holder{Owner: owner, Token: n}, ok && err == nil && owner != ""
}

func leases(all []driver.Holder) string {
	var texts []string
	for _, h := range all {
		texts = append(texts, lease(h))
	}
	return strings.Join(texts, "\n")
}

// forms is what an operator can do to a key. It is what the page showed when it was loaded, and does not
// change by itself under the operator's hand.
type forms struct {
	Key       string
	Operator  string
	Leases    []leaseModel
	Waiters   int
	Record    bool
	Falls     []string // other keys of the same leases
	Force     string   // the reason in the form that was rejected; "" in the others
	Forget    string
	MaxReason int
}

type leaseModel struct {
	Value   string
	Process who.Process
	Held    string
	Chosen  bool
}

// keyForms makes the forms. One that was rejected keeps what was typed, and which leases were chosen.
func (c *Console) keyForms(r *http.Request, l look) any {
	f := forms{Key: l.query.Get("k"), Operator: l.operator}
	f.MaxReason = driver.MaxNoteBytes - len(reasonOf(f.Operator, ""))
	row := c.poll.Row(f.Key)
	if row == nil {
		return f
	}
	info := row.Info()
	f.Waiters, f.Record = len(info.Waiters), info.Record != nil
	var chosen []string
	if l.rejected {
		switch reason := r.PostForm.Get("reason"); r.URL.Path {
		case "/forget":
			f.Forget = reason
		default:
			f.Force, chosen = reason, r.PostForm["lease"]
		}
	}
	owners := make(map[string]bool)
	for _, h := range info.Holders {
		owners[h.Owner] = true
		f.Leases = append(f.Leases, leaseModel{lease(h), who.Of(h.Owner), span(h.HeldFor + time.Since(row.At())), slices.Contains(chosen, lease(h))})
	}
	// At first all are chosen, and also if none of those that the operator saw is there any more.
	if !slices.ContainsFunc(f.Leases, func(l leaseModel) bool { return l.Chosen }) {
		for i := range f.Leases {
			f.Leases[i].Chosen = true
		}
	}
	if f.Operator != "" {
		f.Falls = c.poll.KeysOf(owners, f.Key)
	}
	return f
}
