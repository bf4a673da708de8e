package console

import (
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	mostStreams = 64
	// keepAlive is how often a stream with nothing to say says so: proxies close silent connections.
	keepAlive = 15 * time.Second
	// writeFor is how long a viewer may take to read a message.
	writeFor = 10 * time.Second
)

// message is what a live page gets: what changed.
type message struct {
	Now    int64                    `json:"now"`    // the server's clock, in ms
	Origin int64                    `json:"origin"` // of the bands' unit
	Lists  map[string][]string      `json:"lists,omitempty"`
	Parts  map[string]template.HTML `json:"parts,omitempty"`
}

// serveEvents sends a page what changes on it. A viewer that reads slowly skips states. A stream begins with
// all that there is to see, so it may be opened anew at any time.
func (c *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p := c.pageNamed(query.Get("page"))
	if p == nil {
		http.NotFound(w, r)
		return
	}
	query.Del("page")
	c.source.open(query)
	if c.streams.Add(1) > mostStreams {
		c.streams.Add(-1)
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer c.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	s := stream{console: c, page: p, query: query, w: w, rc: http.NewResponseController(w), sent: make(map[string]template.HTML)}
	s.run(r)
}

type stream struct {
	console *Console
	page    *page
	query   url.Values
	w       http.ResponseWriter
	rc      *http.ResponseController
	sent    map[string]template.HTML // by part
	order   map[string][]string      // by list
}

// run sends until the viewer goes, reads no more, or the console is closed.
func (s *stream) run(r *http.Request) {
	_ = s.console.fresh(r.Context(), s.query.Get("k")) // the page says it
	timer := time.NewTimer(keepAlive)
	defer timer.Stop()
	for text := "retry: 2000\n\n"; ; {
		next := s.console.poll.Next()
		s.console.poll.Look(s.query.Get("k"))
		text += s.news()
		if text != "" {
			if s.send(text) != nil {
				return
			}
			timer.Reset(keepAlive)
		}
		text = ""
		select {
		case <-next:
		case <-timer.C:
			text = ": still here\n\n"
		case <-r.Context().Done():
			return
		case <-s.console.poll.Done():
			return
		}
	}
}

func (s *stream) send(text string) error {
	// The server may have a timeout for whole responses. A server that knows no deadlines has none.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeFor))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	_ = s.rc.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, even if nothing is written
	return nil
}

// news returns what the viewer does not know yet, as an event.
func (s *stream) news() string {
	l, lists := s.console.view(s.page, s.query, true)
	m := message{Now: l.clock.now.UnixMilli(), Origin: l.status.Started.UnixMilli(), Lists: make(map[string][]string), Parts: make(map[string]template.HTML)}
	sent := make(map[string]template.HTML)
	order := make(map[string][]string)
	for _, one := range lists {
		ids := make([]string, 0, len(one.Parts))
		for _, p := range one.Parts {
			ids = append(ids, p.ID)
			sent[p.ID] = p.HTML
			if s.sent[p.ID] != p.HTML {
				m.Parts[p.ID] = p.whole()
			}
			if p.Band == "" {
				continue
			}
			id := "band-" + p.ID
			sent[id] = p.Band
			if s.sent[id] != p.Band && s.sent[p.ID] == p.HTML {
				m.Parts[id] = p.Band
			}
		}
		order[one.ID] = ids
		if !slices.Equal(s.order[one.ID], ids) || s.order == nil {
			m.Lists[one.ID] = ids
		}
	}
	s.sent, s.order = sent, order
	if len(m.Lists) == 0 && len(m.Parts) == 0 {
		return ""
	}
	text, err := json.Marshal(m) // escapes line ends, which would end the event
	if err != nil {
		panic("console: " + err.Error()) // strings and numbers
	}
	return "data: " + string(text) + "\n\n"
}
