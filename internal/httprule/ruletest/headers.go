package ruletest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
)

// lateHeaders are handlers that change their headers after the status, or write trailers.
var lateHeaders = map[string]http.HandlerFunc{
	"after the status": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Kept", "early")
		w.WriteHeader(201)
		w.Header().Set("X-Kept", "late")
		w.Header().Set("Etag", `"late"`)
		w.Header().Set("X-Other", "late")
		_, _ = io.WriteString(w, "text")
	},
	"after the first byte": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Kept", "early")
		_, _ = io.WriteString(w, "text")
		w.Header().Add("X-Kept", "late")
		w.Header().Del("Content-Type")
	},
	"after a flush": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Kept", "early")
		w.Header().Set("Content-Type", "text/plain")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Kept", "late")
		_, _ = io.WriteString(w, "text")
	},
	"nothing written": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Kept", "early")
		w.Header().Set("X-Kept", "last")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "x-kept")
		w.Header().Add("Trailer", "X-Other")
		_, _ = io.WriteString(w, "text")
		w.Header().Set("X-Kept", "sum")
		w.Header().Set("X-Other", "other")
		w.Header().Set(http.TrailerPrefix+"Link", "</next>")
	},
	"a trailer that was set before the status": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Kept")
		w.Header().Set("X-Kept", "early")
		w.WriteHeader(200)
		_, _ = io.WriteString(w, "text")
		w.Header().Set("X-Kept", "late")
	},
	"a trailer without a body": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Kept")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Kept", "sum")
	},
}

// LateHeaders: the client gets the headers and trailers that it would get without the rule.
func LateHeaders(t *testing.T, face Face) {
	for _, http2 := range []bool{false, true} {
		for name, handler := range lateHeaders {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, http2), func(t *testing.T) {
				plain := Serve(t, handler, http2)
				ruled := face(t, Route{HTTP2: http2, Handler: handler})
				sameHeaders(t, "with the rule", ruled.Do("POST", "/1", ""), plain.Do("POST", "/1", ""), nil)
			})
		}
	}
}

// StoredHeaders: a repeat gets the headers and trailers that the first answer had, as far as the
// rule stores them.
func StoredHeaders(t *testing.T, face Face) {
	for _, http2 := range []bool{false, true} {
		for name, handler := range lateHeaders {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, http2), func(t *testing.T) {
				var calls atomic.Int64
				s := face(t, Route{HTTP2: http2, Once: true, Headers: []string{"x-kept"}, Handler: counted(&calls, handler)})
				first, again := s.Do("POST", "/1", ""), s.Do("POST", "/1", "")
				if calls.Load() != 1 || !again.Replayed() || again.Body != first.Body || again.Status != first.Status {
					t.Fatalf("%d calls, %+v, then %+v", calls.Load(), first, again)
				}
				sameHeaders(t, "in the repeat", again, first, []string{"X-Other", "Idempotent-Replayed", "Content-Length"})
			})
		}
	}
}

// sameHeaders compares the headers and trailers of two answers, except those of the moment and
// those with these names.
func sameHeaders(t *testing.T, when string, got, want Answer, except []string) {
	t.Helper()
	for what, pair := range map[string][2]http.Header{"headers": {got.Header, want.Header}, "trailers": {got.Trailer, want.Trailer}} {
		for _, h := range pair {
			maps.DeleteFunc(h, func(name string, _ []string) bool { return name == "Date" || slices.Contains(except, name) })
		}
		if !maps.EqualFunc(pair[0], pair[1], slices.Equal) {
			t.Errorf("%s: %s are %v, want %v", when, what, pair[0], pair[1])
		}
	}
}
