package counters

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// ServeHTTP implements [http.Handler]: the series in Prometheus' text format.
func (c *Counters) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var b strings.Builder
	metric := ""
	for _, s := range c.all() {
		timed := s.metric == wait || s.metric == hold
		if s.metric != metric {
			metric = s.metric
			fmt.Fprintf(&b, "# TYPE %s %s\n", metric, map[bool]string{true: "summary", false: "counter"}[timed])
		}
		if timed {
			fmt.Fprintf(&b, "%s_sum%s %g\n%s_count%s %d\n", s.metric, s.text(), s.seconds, s.metric, s.text(), s.count)
		} else {
			fmt.Fprintf(&b, "%s%s %d\n", s.metric, s.text(), s.count)
		}
	}
	_, _ = io.WriteString(w, b.String()) // the client has gone
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// text writes the labels that are not empty.
func (l labels) text() string {
	var parts []string
	for _, p := range [][2]string{{"keyturn_outcome", l.outcome}, {"keyturn_rule", l.rule}, {"keyturn_shadow", l.value()}, {"keyturn_store", l.store}} {
		if p[1] != "" {
			parts = append(parts, p[0]+`="`+escapes.Replace(strings.ToValidUTF8(p[1], "\uFFFD"))+`"`)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// String implements expvar.Var: the series as one JSON object, each under its name in Prometheus, with a
// number, or with "count" and "seconds".
func (c *Counters) String() string {
	all := make(map[string]any)
	for _, s := range c.all() {
		if s.metric == wait || s.metric == hold {
			all[s.metric+s.text()] = map[string]any{"count": s.count, "seconds": s.seconds}
		} else {
			all[s.metric+s.text()] = s.count
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("counters: " + err.Error()) // strings and numbers can be written
	}
	return string(text)
}

// LogShadows writes a line to log for each shadow rule, every so often, if there was a call: how many calls
// would have waited, been refused, or been answered from the record since the last line. It returns when
// ctx ends. every is a second or more.
func (c *Counters) LogShadows(ctx context.Context, log *slog.Logger, every time.Duration) {
	tick := time.NewTicker(max(every, time.Second))
	defer tick.Stop()
	var before map[string]rehearsed // the first line has what came before the call of LogShadows, too
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := c.shadows()
		for rule, n := range now {
			if d := n.less(before[rule]); d.calls > 0 {
				log.InfoContext(ctx, "keyturn: a shadow rule would have done this", "rule", rule, "calls", d.calls, "waited", d.waited,
					"refused", d.refused, "duplicates", d.duplicates, "not_rehearsed", d.skipped, "unavailable", d.out)
			}
		}
		before = now
	}
}

// rehearsed is what a shadow rule would have done.
type rehearsed struct{ calls, waited, refused, duplicates, skipped, out uint64 }

func (r rehearsed) less(o rehearsed) rehearsed {
	return rehearsed{r.calls - o.calls, r.waited - o.waited, r.refused - o.refused, r.duplicates - o.duplicates, r.skipped - o.skipped, r.out - o.out}
}

func (c *Counters) shadows() map[string]rehearsed {
	all := make(map[string]rehearsed)
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, n := range c.series {
		if !s.shadow {
			continue
		}
		r := all[s.rule]
		switch {
		case s.metric == rehearsal && s.outcome == "mismatch":
			r.refused += n.count
		case s.metric == rehearsal:
			r.waited += n.count
		case s.metric == duplicates:
			r.duplicates += n.count
		case s.metric == wait:
			r.calls += n.count
			switch s.outcome {
			case "held", "wait_timeout", "too_many_waiters", "deadline":
				r.refused += n.count
			case "not_rehearsed":
				r.skipped += n.count
			case "unavailable":
				r.out += n.count
			}
		}
		all[s.rule] = r
	}
	return all
}
