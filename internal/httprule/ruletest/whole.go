package ruletest

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// detach lets the handler finish although its client has hung up.
func detach(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

// WholeAnswers tests that only a whole response comes back. The execution of another one is on
// record without it, because its handler has said that it had succeeded.
func WholeAnswers(t *testing.T, face Face) {
	for name, handler := range map[string]http.HandlerFunc{
		"a part": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("the beginn"))
			<-r.Context().Done()
		},
		"a flushed part": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("the beginn"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"nothing": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"everything": func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			write(w, 201, "done all the same")
		},
	} {
		t.Run("hung up after "+name, func(t *testing.T) {
			var calls atomic.Int64
			running := make(chan struct{})
			s := face(t, Route{Once: true, Handler: counted(&calls, func(w http.ResponseWriter, r *http.Request) {
				close(running)
				handler(w, r)
			})})
			hangUp := s.sendAndHangUp("POST", "/1", "body")
			Receive(t, "the handler", running)
			hangUp()
			s.Do("POST", "/1", "body").Problem(t, 409, "RESULT_NOT_KEPT") // waits for the first request, if necessary
			if calls.Load() != 1 {
				t.Errorf("the handler ran %d times", calls.Load())
			}
		})
	}
	t.Run("hung up on a detached handler", func(t *testing.T) {
		running, goOn := make(chan struct{}, 1), make(chan struct{})
		s := face(t, Route{Once: true, Outer: detach, Handler: func(w http.ResponseWriter, _ *http.Request) {
			running <- struct{}{}
			<-goOn
			write(w, 201, "done all the same")
		}})
		hangUp := s.sendAndHangUp("POST", "/1", "body")
		Receive(t, "the handler", running)
		hangUp()
		close(goOn)
		if a := s.Do("POST", "/1", "body"); a.Status != 201 || a.Body != "done all the same" || !a.Replayed() {
			t.Errorf("repeat = %+v, want the response", a)
		}
	})
	for name, tt := range map[string]struct {
		method, length string
		status         int
		kept           bool
	}{
		"too short":               {"POST", "100", 200, false},
		"too long":                {"POST", "2", 200, false},
		"fitting":                 {"POST", "4", 200, true},
		"no number":               {"POST", "four", 200, false},
		"of what HEAD leaves out": {"HEAD", "100", 200, true},
		"of what is not modified": {"POST", "100", 304, true},
	} {
		t.Run("a Content-Length "+name, func(t *testing.T) {
			var calls atomic.Int64
			s := face(t, Route{Once: true, Handler: counted(&calls, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", tt.length)
				w.WriteHeader(tt.status)
				if r.Method != "HEAD" && tt.status == 200 {
					_, _ = w.Write([]byte("four"))
				}
			})})
			_, _ = s.Send(s.NewRequest(tt.method, "/1", "")) // net/http reports a wrong length to the client
			again := s.Do(tt.method, "/1", "")
			if tt.kept && (!again.Replayed() || again.Status != tt.status) {
				t.Errorf("repeat = %+v, want the response", again)
			}
			if !tt.kept {
				again.Problem(t, 409, "RESULT_NOT_KEPT")
			}
			if calls.Load() != 1 {
				t.Errorf("the handler ran %d times", calls.Load())
			}
		})
	}
}

// CutStreams: a response whose client was cut off is not whole, even if its handler goes on.
func CutStreams(t *testing.T, face Face) {
	var calls atomic.Int64
	long := strings.Repeat("x", 1<<20)
	s := face(t, Route{Once: true, ResultLimit: 64 << 20, Outer: detach, Handler: counted(&calls, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		for range 40 { // more than any buffer; a write fails once the connection has been broken off
			_, _ = w.Write([]byte(long))
		}
	})})
	client := s.Dial(t)
	client.Say("POST /1 HTTP/1.1\nHost: x\nContent-Length: 0\n\n")
	Until(t, "the handler", func() bool { return calls.Load() == 1 })
	client.Close()
	s.Do("POST", "/1", "").Problem(t, 409, "RESULT_NOT_KEPT")
}
