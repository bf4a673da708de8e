package observe

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/tracing/semconv"
)

// Collector receives what processes report. Close it.
type Collector struct {
	URL    string
	server *http.Server

	mu      sync.Mutex
	spans   []Span
	metrics map[string]string // by process
}

// Collect starts a collector on the loopback interface.
func Collect() (*Collector, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Collector{URL: "http://" + listener.Addr().String(), metrics: make(map[string]string)}
	c.server = &http.Server{Handler: http.HandlerFunc(c.take), ReadHeaderTimeout: 5 * time.Second}
	go c.server.Serve(listener) // runs until Close
	return c, nil
}

// Close ends the collector.
func (c *Collector) Close() error { return c.server.Close() }

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	var report Report
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if report.Metrics != "" {
		c.metrics[report.Process] = report.Metrics
	}
	c.spans = append(c.spans, report.Spans...)
	w.WriteHeader(http.StatusNoContent)
}

// Metrics returns the address at which each process serves its metrics.
func (c *Collector) Metrics() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.metrics)
}

// Blocked returns the request that waited longest, and a request that was in its way, if
// possible in another process: each as its whole trace. ok is false while there is no such pair
// of complete traces.
func (c *Collector) Blocked() (waited, holder []Span, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	type pair struct{ asking, holder Span }
	var pairs []pair
	for _, s := range c.spans {
		for _, l := range s.Links {
			to := slices.IndexFunc(c.spans, func(h Span) bool { return h.Trace == l.Trace && h.ID == l.ID })
			if l.Kind == semconv.LinkBlockedBy && s.Trace != l.Trace && to >= 0 {
				pairs = append(pairs, pair{s, c.spans[to]})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if near := a.asking.Process == a.holder.Process; near != (b.asking.Process == b.holder.Process) {
			return map[bool]int{false: -1, true: 1}[near]
		}
		return cmp.Compare(b.asking.duration(), a.asking.duration())
	})
	for _, p := range pairs {
		waited, holder = c.trace(p.asking.Trace), c.trace(p.holder.Trace)
		if complete(waited) && complete(holder) {
			return waited, holder, true
		}
	}
	return nil, nil, false
}

func (c *Collector) trace(id string) (spans []Span) {
	for _, s := range c.spans {
		if s.Trace == id {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Begin.Compare(b.Begin) })
	return spans
}

// complete reports whether a trace has its root, every span's parent, and a hold. A trace comes
// in parts, from several processes.
func complete(spans []Span) bool {
	ids := map[string]bool{noParent: true}
	root, hold := false, false
	for _, s := range spans {
		ids[s.ID] = true
		root = root || s.Parent == noParent
		hold = hold || s.Name == semconv.SpanHold
	}
	return root && hold && !slices.ContainsFunc(spans, func(s Span) bool { return !ids[s.Parent] })
}

const noParent = "0000000000000000"
