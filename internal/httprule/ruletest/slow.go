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
)

// echoLength answers with the number of bytes that it read of the body.
func echoLength(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprint(w, n, " of ", r.ContentLength, " ", err)
}

// others sends five requests on the key that a slow client wants or has had. Each is served,
// although it does not wait.
func (s *Site) others(body string) {
	s.t.Helper()
	for range 5 {
		if a := s.Do("POST", "/1", body, "Content-Type", "application/json"); a.Status != 200 {
			s.t.Fatalf("another request on the key: %d %.200s", a.Status, a.Body)
		}
	}
}

// SlowBodies: a client that sends a byte every 100 ms keeps no key, and is served itself in the
// end.
func SlowBodies(t *testing.T, face Face) {
	const head = "POST /1 HTTP/1.1\nHost: a\nContent-Type: application/json\nConnection: close\n"
	for name, r := range map[string]Route{
		"key from the path": {Template: "k:{path.id}"},
		"key from the body": {Template: "k:{body.id}"},
		"Once":              {Template: "k:{path.id}", Once: true, Options: []core.CallOption{core.WithoutFingerprint()}},
	} {
		t.Run(name, func(t *testing.T) {
			WatchSpools(t)
			r.Engine, r.Handler = NewEngine(t, NewStore()), echoLength
			r.Options = append(r.Options, core.WithFailFast())
			s := face(t, r)
			c := s.Dial(t)
			const size = 100_000
			c.Say(head+"Content-Length: %d\n\n{\"id\":\"1\"", size)
			stop := make(chan struct{})
			sent := c.Drip(' ', stop)
			time.Sleep(250 * time.Millisecond) // the server sees that the body is under way
			s.others(`{"id":"1"}`)
			close(stop)
			n := size - len(`{"id":"1"`) - Receive(t, "the slow client", sent)
			c.Say("%s}", strings.Repeat(" ", n-1))
			if a := c.Answer(); a.Status != 200 || !r.Once && a.Body != "100000 of 100000 <nil>" {
				t.Errorf("the slow client: %d %s", a.Status, a.Body)
			}
		})
	}
}

// SlowReaders: a client that does not read its answer keeps no key, and gets all of it in the
// end.
func SlowReaders(t *testing.T, face Face) {
	answer := strings.Repeat("0123456789abcdef", 16<<20/16)
	for name, r := range map[string]Route{
		"in one write":   {Handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }},
		"in many writes": {Handler: inPieces(answer)},
		"with a length": {Handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
			inPieces(answer)(w, r)
		}},
		"Once": {Handler: inPieces(answer), Once: true},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !r.Once {
				t.Skip("only in the long run")
			}
			spools := WatchSpools(t)
			r.Engine, r.Template = NewEngine(t, NewStore()), "k"
			r.Options = []core.CallOption{core.WithFailFast()}
			ran := make(chan struct{}, 100)
			handler := r.Handler
			r.Handler = func(w http.ResponseWriter, r *http.Request) {
				ran <- struct{}{}
				handler(w, r)
			}
			s := face(t, r)
			c := s.Dial(t)
			c.Say("POST /1 HTTP/1.1\nHost: a\nConnection: close\n\n")
			Receive(t, "the handler", ran)
			Until(t, "the release", func() bool { return !IsHeld(t, r.Engine, "k") })
			if spools.Count() == 0 {
				t.Error("the answer is in no temporary file")
			}
			if a := s.Do("POST", "/1", ""); r.Once && a.Status != 409 || !r.Once && a.Body != answer {
				t.Errorf("another client: %d with %d bytes", a.Status, len(a.Body))
			}
			if a := c.Answer(); a.Status != 200 || a.Body != answer || a.Broken != nil {
				t.Errorf("the slow client: %d with %d bytes, %v", a.Status, len(a.Body), a.Broken)
			}
		})
	}
}

func inPieces(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(text); i += 10_007 {
			if _, err := io.WriteString(w, text[i:min(len(text), i+10_007)]); err != nil {
				panic(err)
			}
		}
	}
}

// BrokenBodies: a client that goes away in the middle of its body never asks for the key. A
// client that is too slow for the server's timeout is told so.
func BrokenBodies(t *testing.T, face Face) {
	spools := WatchSpools(t)
	st := NewStore()
	r := Route{Engine: NewEngine(t, st), Handler: func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }}
	s := face(t, r)
	for _, sent := range []int{10, 200_000} {
		c := s.Dial(t)
		c.Say("POST /1 HTTP/1.1\nHost: a\nContent-Length: 300000\n\n%s", strings.Repeat("x", sent))
		if sent > 64<<10 {
			Until(t, "the temporary file", func() bool { return spools.Count() == 1 })
		}
		c.Close()
		Until(t, "the temporary file to go", func() bool { return spools.Count() == 0 })
	}
	r.Server = func(srv *http.Server) { srv.ReadTimeout = 200 * time.Millisecond }
	c := face(t, r).Dial(t)
	c.Say("POST /1 HTTP/1.1\nHost: a\nContent-Length: 300000\n\nx")
	c.Answer().Problem(t, 408, "BODY_TIMEOUT")
	if n := st.Requests(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

// PanickingHandlers leave no temporary file, and no key.
func PanickingHandlers(t *testing.T, face Face) {
	for _, once := range []bool{false, true} {
		spools := WatchSpools(t)
		eng := NewEngine(t, NewStore())
		s := face(t, Route{Engine: eng, Template: "k", Once: once, Handler: func(w http.ResponseWriter, r *http.Request) {
			inPieces(strings.Repeat("x", 200_000))(w, r)
			if n := spools.Count(); n != 2 {
				t.Errorf("%d temporary files, want one for the body and one for the answer", n)
			}
			panic(http.ErrAbortHandler)
		}})
		if _, err := s.Send(s.NewRequest("POST", "/1", strings.Repeat("x", 200_000))); err == nil {
			t.Error("the client got an answer")
		}
		Until(t, "the temporary files to go", func() bool { return spools.Count() == 0 })
		if IsHeld(t, eng, "k") {
			t.Error("the key is still held")
		}
	}
}

// Bodies: they arrive whole however they are sent, with their length and the trailer that
// follows.
func Bodies(t *testing.T, face Face) {
	for _, http2 := range []bool{false, true} {
		for _, size := range []int{0, 1, 4096, 4097, 64 << 10, 64<<10 + 1, 3_000_000} {
			for _, chunked := range []bool{false, true} {
				if size == 0 && chunked {
					continue
				}
				t.Run(fmt.Sprintf("HTTP/2 %v, %d bytes, chunked %v", http2, size, chunked), func(t *testing.T) {
					WatchSpools(t)
					body := strings.Repeat("0123456789abcdefg", size/17+1)[:size]
					s := face(t, Route{Engine: NewEngine(t, NewStore()), HTTP2: http2, Handler: func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Trailer", "X-Sum")
						w.WriteHeader(201)
						w.Header().Set("X-Sum", r.Trailer.Get("X-Sum"))
						data, err := io.ReadAll(r.Body)
						if string(data) != body || err != nil {
							t.Errorf("the handler read %d bytes, %v", len(data), err)
						}
						want := int64(size)
						if chunked {
							want = -1
						}
						if r.ContentLength != want {
							t.Errorf("ContentLength = %d, want %d", r.ContentLength, want)
						}
						if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
							t.Errorf("behind the end: %d, %v", n, err)
						}
						_, _ = w.Write(data)
					}})
					req := s.NewRequest("POST", "/1", body)
					if chunked {
						req.ContentLength = -1
						req.Trailer = http.Header{"X-Sum": {"7"}}
					}
					res, err := s.Client().Do(req)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					data, err := io.ReadAll(res.Body)
					if res.StatusCode != 201 || string(data) != body || err != nil {
						t.Errorf("answer = %s with %d bytes, %v", res.Status, len(data), err)
					}
					if chunked && res.Trailer.Get("X-Sum") != "7" || res.Header.Get("X-Sum") != "" {
						t.Errorf("trailer = %v, header = %v", res.Trailer, res.Header)
					}
				})
			}
		}
	}
}

// ExpectContinue: the client is asked for its body, unless the body would be too large.
func ExpectContinue(t *testing.T, face Face) {
	s := face(t, Route{Engine: NewEngine(t, NewStore()), Handler: echoLength, BodyLimit: 10})
	const head = "POST /1 HTTP/1.1\nHost: a\nExpect: 100-continue\nContent-Length: %d\n\n"
	c := s.Dial(t)
	c.Say(head, 10)
	line, err := c.answers.ReadString('\n')
	if empty, _ := c.answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") || empty != "\r\n" {
		t.Fatalf("the server said %q, %v", line, err)
	}
	c.Say("0123456789")
	if a := c.Answer(); a.Body != "10 of 10 <nil>" {
		t.Errorf("answer = %+v", a)
	}
	c = s.Dial(t)
	c.Say(head, 11)
	c.Answer().Problem(t, 413, "BODY_TOO_LARGE")
}

// StreamedBodies: with StreamBody, a handler reads the body from the client, of any length.
func StreamedBodies(t *testing.T, face Face) {
	WatchSpools(t)
	eng := NewEngine(t, NewStore())
	began := make(chan struct{})
	s := face(t, Route{Engine: eng, Template: "k", BodyLimit: 1, StreamBody: true, Handler: func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 5)); err != nil {
			t.Error(err)
		}
		close(began)
		echoLength(w, r)
	}})
	c := s.Dial(t)
	c.Say("POST /1 HTTP/1.1\nHost: a\nContent-Length: 200000\n\n12345")
	Receive(t, "the handler", began)
	if !IsHeld(t, eng, "k") {
		t.Error("the handler runs without the key")
	}
	c.Say("%s", strings.Repeat("x", 199_995))
	if a := c.Answer(); a.Body != "199995 of 200000 <nil>" {
		t.Errorf("answer = %+v", a)
	}
}

// NoTemporaryFiles: if no temporary file can be made, a large body is refused before the key is
// asked for, and a large answer is sent at once.
func NoTemporaryFiles(t *testing.T, face Face) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	st := NewStore()
	eng := NewEngine(t, st)
	var calls atomic.Int64
	answer := strings.Repeat("x", 200_000)
	s := face(t, Route{Engine: eng, Template: "k", Handler: func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		inPieces(answer)(w, r)
	}})
	a := s.Do("POST", "/1", strings.Repeat("x", 64<<10+1))
	a.Problem(t, 503, "SPOOL_UNAVAILABLE")
	a.CheckRetryAfter(t, true)
	a.CheckDiscretion(t, "missing")
	if calls.Load() != 0 || st.Requests() != 0 {
		t.Errorf("the handler ran %d times, the store was asked %d times", calls.Load(), st.Requests())
	}
	if a := s.Do("POST", "/1", strings.Repeat("x", 64<<10)); a.Status != 200 || a.Body != answer || a.Broken != nil {
		t.Errorf("answer = %d with %d bytes, %v", a.Status, len(a.Body), a.Broken)
	}
}

// HugeAnswers are sent at once.
func HugeAnswers(t *testing.T, face Face) {
	spools := WatchSpools(t)
	eng := NewEngine(t, NewStore())
	goOn := make(chan struct{})
	s := face(t, Route{Engine: eng, Template: "k", Handler: func(w http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 1<<20)
		for range 65 {
			_, _ = w.Write(piece)
		}
		if n := spools.Count(); n != 0 {
			t.Errorf("%d temporary files for what is sent", n)
		}
		<-goOn
	}})
	res, err := s.Client().Do(s.NewRequest("POST", "/1", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if !IsHeld(t, eng, "k") {
		t.Error("the handler runs without the key")
	}
	close(goOn)
	if n, err := io.Copy(io.Discard, res.Body); n != 65<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TwoRules: two nested rules keep the body once.
func TwoRules(t *testing.T, face Face) {
	spools := WatchSpools(t)
	eng := NewEngine(t, NewStore())
	body := strings.Repeat("0123456789", 20_000)
	inner := face(t, Route{Engine: eng, Template: "inner:{body|hash}", Handler: func(w http.ResponseWriter, r *http.Request) {
		if n := spools.Count(); n != 1 {
			t.Errorf("%d temporary files, want one", n)
		}
		if data, err := io.ReadAll(r.Body); string(data) != body || err != nil {
			t.Errorf("the handler read %d bytes, %v", len(data), err)
		}
	}})
	for _, once := range []bool{false, true} {
		s := face(t, Route{Engine: eng, Template: "outer", Once: once, Handler: inner.Config.Handler.ServeHTTP})
		if a := s.Do("POST", "/1", body); a.Status != 200 {
			t.Errorf("answer = %+v", a)
		}
	}
}
