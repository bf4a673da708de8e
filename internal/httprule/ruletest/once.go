package ruletest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/http"
)

// StoredResponses tests that stored responses come back with status, headers and body.
func StoredResponses(t *testing.T, face Face) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		body    string
		header  map[string]string // headers of the repeat
	}{
		{
			name: "201 with headers",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Location", "/messages/7")
				h.Set("Etag", `"v1"`)
				h.Set("Content-Range", "bytes 2-6/9")
				h.Set("X-Kept", "yes")
				h.Set("X-Other", "no")
				h.Set("Set-Cookie", "session=secret")
				write(w, 201, "seven")
			},
			status: 201, body: "seven",
			header: map[string]string{"Content-Type": "text/plain", "Content-Range": "bytes 2-6/9", "Location": "/messages/7", "Etag": `"v1"`, "X-Kept": "yes", "X-Other": "", "Set-Cookie": ""},
		},
		{name: "nothing written", handler: func(http.ResponseWriter, *http.Request) {}, status: 200},
		{name: "204", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, status: 204},
		{name: "a body without a status", handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "raw") }, status: 200, body: "raw"},
		{name: "a redirect", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(303)
		}, status: 303, header: map[string]string{"Location": "/elsewhere"}},
		{name: "binary", handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x00\r\n\r\n\xff") }, status: 200, body: "\x00\r\n\r\n\xff"},
		{name: "a status nobody knows", handler: func(w http.ResponseWriter, _ *http.Request) { write(w, 299, "odd") }, status: 299, body: "odd"},
		{name: "an error that is an outcome", handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such user", 404) }, status: 404, body: "no such user\n"},
		{name: "flushed", handler: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "a")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "b")
		}, status: 200, body: "ab"},
		{name: "flushed before anything", handler: func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "late")
		}, status: 200, body: "late"},
		{name: "a header folded by an attacker", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Kept"] = []string{"a\r\nX-Injected: yes"}
		}, status: 200, header: map[string]string{"X-Injected": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			s := face(t, Route{Once: true, Template: "m:{body.id}", Headers: []string{"x-kept"}, Outer: RequestID, Handler: counted(&calls, tt.handler)})
			s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			first := s.Do("POST", "/1", `{"id":1}`)
			again := s.Do("POST", "/1", `{"id":1}`)
			if calls.Load() != 1 || first.Replayed() || !again.Replayed() {
				t.Fatalf("%d calls; replayed: %v, then %v", calls.Load(), first.Replayed(), again.Replayed())
			}
			for _, a := range []Answer{first, again} {
				if a.Status != tt.status || a.Body != tt.body || a.Broken != nil || a.Header.Get("X-Request-Id") == "" {
					t.Errorf("answer = %+v, want %d %q", a, tt.status, tt.body)
				}
			}
			for name, want := range tt.header {
				if got := again.Header.Get(name); got != want {
					t.Errorf("%s = %q in the repeat, want %q", name, got, want)
				}
			}
		})
	}
}

// WhatIsStored tests that the status decides what is stored, unless the rule has its own
// function.
func WhatIsStored(t *testing.T, face Face) {
	check := func(status int, storable func(lockhttp.Response) bool, stored bool) {
		var calls atomic.Int64
		s := face(t, Route{Once: true, Storable: storable, Handler: counted(&calls, func(w http.ResponseWriter, _ *http.Request) { write(w, status, "text") })})
		first, again := s.Do("POST", "/1", ""), s.Do("POST", "/1", "")
		if first.Status != status || again.Status != status || first.Body != again.Body {
			t.Errorf("answers = %+v, %+v; want %d twice", first, again, status)
		}
		if again.Replayed() != stored || calls.Load() != map[bool]int64{true: 1, false: 2}[stored] {
			t.Errorf("%d: replayed = %v after %d calls, want stored = %v", status, again.Replayed(), calls.Load(), stored)
		}
	}
	for status, stored := range map[int]bool{
		200: true, 400: true, 403: true, 422: true,
		401: false, 408: false, 409: false, 423: false, 425: false, 429: false, 500: false, 503: false,
	} {
		check(status, nil, stored)
	}
	check(503, func(lockhttp.Response) bool { return true }, true)
	check(200, func(lockhttp.Response) bool { return false }, false)
}

// ResultLimits: a response over the limit reaches its client whole, and the handler does not
// run again, whatever sets the limit.
func ResultLimits(t *testing.T, face Face) {
	long := strings.Repeat("0123456789", 500)
	whole := func(w http.ResponseWriter, _ *http.Request) { write(w, 200, long) }
	limit := func(n int) []core.CallOption { return []core.CallOption{core.WithResultLimit(n)} }
	ofEngine := func(n int) []core.EngineOption { return []core.EngineOption{core.WithResultLimit(n)} }
	for _, tt := range []struct {
		name   string
		route  Route
		engine []core.EngineOption
		stored bool
	}{
		{name: "under the default", stored: true},
		{name: "over the config's", route: Route{ResultLimit: 4000}},
		{name: "over the config's in one write", route: Route{ResultLimit: 4000, Handler: whole}},
		{name: "over the config's by its headers", route: Route{ResultLimit: len(long) + 10, Handler: whole}},
		{name: "the config's is next to nothing", route: Route{ResultLimit: 1}},
		{name: "under the config's, over the engine's", route: Route{ResultLimit: 6000}, engine: ofEngine(10), stored: true},
		{name: "over the engine's", engine: ofEngine(4000)},
		{name: "over the rule's", route: Route{Options: limit(4000)}},
		{name: "over the rule's, which is nothing", route: Route{Options: limit(0)}},
		{name: "under the rule's, over the engine's", route: Route{Options: limit(6000)}, engine: ofEngine(10), stored: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.route.Handler == nil {
				tt.route.Handler = inPieces(long)
			}
			var calls atomic.Int64
			tt.route.Once, tt.route.Engine = true, NewEngine(t, NewStore(), tt.engine...)
			tt.route.Handler = counted(&calls, tt.route.Handler)
			s := face(t, tt.route)
			if a := s.Do("POST", "/1", ""); a.Status != 200 || a.Body != long || a.Broken != nil {
				t.Fatalf("answer = %d with %d bytes, %v; want all of it", a.Status, len(a.Body), a.Broken)
			}
			again := s.Do("POST", "/1", "")
			if calls.Load() != 1 {
				t.Errorf("the handler ran %d times", calls.Load())
			}
			if !tt.stored {
				again.Problem(t, 409, "RESULT_NOT_KEPT")
				again.CheckRetryAfter(t, false)
			} else if again.Body != long || !again.Replayed() {
				t.Errorf("repeat = %+v, want the response", again)
			}
		})
	}
}

// Streams: flushed responses and events are sent at once, and a handler may take over the
// connection.
func Streams(t *testing.T, face Face) {
	goOn := make(chan struct{})
	streams := map[string]http.HandlerFunc{
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
			<-goOn
			fmt.Fprint(w, "second")
		},
		"events": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprint(w, "first"+strings.Repeat(" ", 8<<10)) // more than net/http keeps back
			<-goOn
			fmt.Fprint(w, "second")
		},
	}
	for _, once := range []bool{false, true} {
		for name, handler := range streams {
			s := face(t, Route{Once: once, Handler: handler})
			res, err := s.Client().Do(s.NewRequest("GET", "/1", ""))
			if err != nil {
				t.Fatal(err)
			}
			begin := make([]byte, 5)
			if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != "first" {
				t.Errorf("%s, once %v: before the end: %q, %v", name, once, begin, err)
			}
			goOn <- struct{}{}
			if rest, err := io.ReadAll(res.Body); err != nil || strings.TrimSpace(string(rest)) != "second" {
				t.Errorf("%s, once %v: then: %q, %v", name, once, rest, err)
			}
			res.Body.Close()
		}
		var calls atomic.Int64
		s := face(t, Route{Once: once, Handler: counted(&calls, func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nraw")
			_ = rw.Flush()
		})})
		if a := s.Do("GET", "/1", ""); a.Body != "raw" {
			t.Errorf("once %v: hijacked: %+v", once, a)
		}
		if once {
			s.Do("GET", "/1", "").Problem(t, 409, "RESULT_NOT_KEPT")
			if calls.Load() != 1 {
				t.Error("a request that took over the connection ran again")
			}
		}
	}
}

// Twins: the second request waits for the first and gets its response.
func Twins(t *testing.T, face Face) {
	var calls atomic.Int64
	first, second := twins(t, face, Route{Handler: counted(&calls, Done)}, func() {})
	if first.Body != "done" || second.Body != "done" || first.Replayed() == second.Replayed() || calls.Load() != 1 {
		t.Errorf("answers = %+v, %+v after %d calls", first, second, calls.Load())
	}
}

// twins sends two requests to a route of Once, the second of them while the first runs. Then it calls then, and the
// first goes on.
func twins(t *testing.T, face Face, r Route, then func()) (first, second Answer) {
	t.Helper()
	st, handler := NewStore(), r.Handler
	running, goOn := make(chan struct{}), make(chan struct{})
	r.Once, r.Engine = true, NewEngine(t, st)
	r.Handler = func(w http.ResponseWriter, r *http.Request) {
		close(running)
		<-goOn
		handler(w, r)
	}
	s := face(t, r)
	answers := make(chan Answer, 2)
	post := func() { answers <- s.Do("POST", "/1", "") }
	go post()
	Receive(t, "the handler", running)
	go post()
	Until(t, "the twin to wait", func() bool { return st.Asked() == 1 })
	then()
	close(goOn)
	return Receive(t, "an answer", answers), Receive(t, "an answer", answers)
}

// Fingerprints tests which differences make a request another one.
func Fingerprints(t *testing.T, face Face) {
	const same, other = 200, 422
	for _, tt := range []struct {
		name, method, target, body string
		header                     []string
		opts                       []core.CallOption
		status                     int
	}{
		{name: "the same", method: "POST", target: "/a?x=1", body: "1", status: same},
		{name: "another header", method: "POST", target: "/a?x=1", body: "1", header: []string{"Authorization", "renewed"}, status: same},
		{name: "another method", method: "PUT", target: "/a?x=1", body: "1", status: other},
		{name: "another path", method: "POST", target: "/b?x=1", body: "1", status: other},
		{name: "another query", method: "POST", target: "/a?x=2", body: "1", status: other},
		{name: "another body", method: "POST", target: "/a?x=1", body: "2", status: other},
		{name: "no body", method: "POST", target: "/a?x=1", status: other},
		{name: "the same bytes, divided otherwise", method: "POST", target: "/a?x=", body: "11", status: other},
		{name: "another body, which does not matter", method: "POST", target: "/a?x=1", body: "2", opts: []core.CallOption{core.WithoutFingerprint()}, status: same},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := face(t, Route{Once: true, Template: "m:{header.key}", Options: tt.opts})
			s.Do("POST", "/a?x=1", "1", "Key", "k")
			if a := s.Do(tt.method, tt.target, tt.body, append(tt.header, "Key", "k")...); a.Status != tt.status {
				t.Errorf("answer = %+v, want %d", a, tt.status)
			}
		})
	}
}

// LossStoresNothing: after a lost lease the next request runs the handler.
func LossStoresNothing(t *testing.T, face Face) {
	var calls atomic.Int64
	s := face(t, Route{Once: true, Options: []core.CallOption{core.WithMaxHold(20 * time.Millisecond)}, Handler: counted(&calls, func(w http.ResponseWriter, r *http.Request) {
		if calls.Load() == 1 {
			untilLost(w, r)
			return
		}
		Done(w, r)
	})})
	s.Do("POST", "/1", "").Problem(t, 409, "LEASE_LOST")
	if a := s.Do("POST", "/1", ""); a.Status != 200 || a.Replayed() || calls.Load() != 2 {
		t.Errorf("answer = %+v after %d calls", a, calls.Load())
	}
}
