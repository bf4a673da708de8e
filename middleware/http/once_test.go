package lockhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// counted counts the calls of a handler.
func counted(n *atomic.Int64, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		next(w, r)
	}
}

// TestTheStoredResponseComesBack: status, headers and body.
func TestTheStoredResponseComesBack(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		body    string
		header  map[string]string // of the repeat
	}{
		{
			name: "201 with headers",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Location", "/messages/7")
				h.Set("X-Kept", "yes")
				h.Set("X-Other", "no")
				h.Set("Set-Cookie", "session=secret")
				text(w, 201, "seven")
			},
			status: 201, body: "seven",
			header: map[string]string{"Content-Type": "text/plain", "Location": "/messages/7", "X-Kept": "yes", "X-Other": "", "Set-Cookie": ""},
		},
		{name: "nothing written", handler: func(http.ResponseWriter, *http.Request) {}, status: 200},
		{name: "204", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, status: 204},
		{name: "a body without a status", handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "raw") }, status: 200, body: "raw"},
		{name: "an error that is an outcome", handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such user", 404) }, status: 404, body: "no such user\n"},
		{name: "flushed", handler: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "a")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "b")
		}, status: 200, body: "ab"},
		{name: "a header folded by an attacker", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Kept"] = []string{"a\r\nX-Injected: yes"}
		}, status: 200, header: map[string]string{"X-Injected": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			var calls atomic.Int64
			rule, err := lockhttp.OnceConfig{
				Engine: ruletest.NewEngine(t, ruletest.NewStore()), Template: "message:{body.id}", Headers: []string{"x-kept"},
			}.ToMiddleware()
			if err != nil {
				t.Fatal(err)
			}
			s.handle("POST /messages", counted(&calls, tt.handler), requestID, rule)
			first := s.Do("POST", "/messages", `{"id":1}`)
			again := s.Do("POST", "/messages", `{"id":1}`)
			if calls.Load() != 1 || replayed(first) || !replayed(again) {
				t.Fatalf("%d calls; replayed: %v, then %v", calls.Load(), replayed(first), replayed(again))
			}
			for _, a := range []ruletest.Answer{first, again} {
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

// TestWhatIsStored: by the status of the response.
func TestWhatIsStored(t *testing.T) {
	for status, stored := range map[int]bool{
		200: true, 400: true, 403: true, 422: true,
		401: false, 408: false, 409: false, 423: false, 425: false, 429: false, 500: false, 503: false,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := newSite(t)
			var calls atomic.Int64
			s.handle("POST /{id}", counted(&calls, func(w http.ResponseWriter, _ *http.Request) { text(w, status, "text") }),
				lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}"))
			first, again := s.Do("POST", "/1", ""), s.Do("POST", "/1", "")
			if first.Status != status || again.Status != status || first.Body != again.Body {
				t.Errorf("answers = %+v, %+v; want %d twice", first, again, status)
			}
			if replayed(again) != stored || calls.Load() != map[bool]int64{true: 1, false: 2}[stored] {
				t.Errorf("replayed = %v after %d calls, want stored = %v", replayed(again), calls.Load(), stored)
			}
		})
	}
}

// TestAResponseOverTheLimit reaches its client whole, and is not run again,
// whoever says what the limit is.
func TestAResponseOverTheLimit(t *testing.T) {
	long := strings.Repeat("0123456789", 500)
	handler := func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(long); i += 10 {
			fmt.Fprint(w, long[i:i+10])
		}
	}
	type config = lockhttp.OnceConfig
	for _, tt := range []struct {
		name   string
		config config
		engine []core.EngineOption
		stored bool
	}{
		{name: "under the default", stored: true},
		{name: "over the config's", config: config{ResultLimit: 4000}},
		{name: "under the config's, over the engine's", config: config{ResultLimit: 6000}, engine: []core.EngineOption{core.WithResultLimit(10)}, stored: true},
		{name: "over the engine's", engine: []core.EngineOption{core.WithResultLimit(4000)}},
		{name: "over the rule's", config: config{Options: []core.CallOption{core.WithResultLimit(4000)}}},
		{name: "over the rule's, which is nothing", config: config{Options: []core.CallOption{core.WithResultLimit(0)}}},
		{name: "under the rule's, over the engine's", config: config{Options: []core.CallOption{core.WithResultLimit(6000)}}, engine: []core.EngineOption{core.WithResultLimit(10)}, stored: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.config.Engine, tt.config.Template = ruletest.NewEngine(t, ruletest.NewStore(), tt.engine...), "m:{path.id}"
			rule, err := tt.config.ToMiddleware()
			if err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int64
			s.handle("POST /{id}", counted(&calls, handler), rule)
			if a := s.Do("POST", "/1", ""); a.Status != 200 || a.Body != long || a.Broken != nil {
				t.Fatalf("answer = %d with %d bytes, %v; want all of it", a.Status, len(a.Body), a.Broken)
			}
			again := s.Do("POST", "/1", "")
			if calls.Load() != 1 {
				t.Errorf("the handler ran %d times", calls.Load())
			}
			if !tt.stored {
				again.Problem(t, 409, "RESULT_NOT_KEPT")
			} else if again.Body != long || !replayed(again) {
				t.Errorf("repeat = %+v, want the response", again)
			}
		})
	}
}

// TestStreamsPass: what is flushed, or is an event, is on its way at once, and
// what takes over the connection has it.
func TestStreamsPass(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	goOn := make(chan struct{})
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	flushing := counted(&calls, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		fmt.Fprint(w, "second")
	})
	events := counted(&calls, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, "first"+strings.Repeat(" ", 8<<10)) // more than net/http keeps back
		<-goOn
		fmt.Fprint(w, "second")
	})
	hijack := counted(&calls, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nraw")
		_ = rw.Flush()
	})
	for kind, rule := range map[string]func(string, ...core.CallOption) middleware{"once": locks.Once, "serialize": locks.Serialize} {
		s.handle("GET /flush/"+kind, flushing, rule("flush:"+kind))
		s.handle("GET /events/"+kind, events, rule("events:"+kind))
		s.handle("GET /hijack/"+kind, hijack, rule("hijack:"+kind))
	}
	for _, path := range []string{"/flush/once", "/flush/serialize", "/events/once", "/events/serialize"} {
		res, err := s.Client().Do(s.NewRequest("GET", path, ""))
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != "first" {
			t.Errorf("%s: before the end: %q, %v", path, begin, err)
		}
		goOn <- struct{}{}
		if rest, err := io.ReadAll(res.Body); err != nil || strings.TrimSpace(string(rest)) != "second" {
			t.Errorf("%s: then: %q, %v", path, rest, err)
		}
		res.Body.Close()
	}
	for _, path := range []string{"/hijack/once", "/hijack/serialize"} {
		if a := s.Do("GET", path, ""); a.Body != "raw" {
			t.Errorf("%s: %+v", path, a)
		}
	}
	before := calls.Load()
	s.Do("GET", "/hijack/once", "").Problem(t, 409, "RESULT_NOT_KEPT")
	if calls.Load() != before {
		t.Error("a request that took over the connection ran again")
	}
}

// TestADisconnectDoesNotPreventTheRecord: the client that hung up finds the
// response when it comes back.
func TestADisconnectDoesNotPreventTheRecord(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	running, goOn := make(chan struct{}), make(chan struct{})
	s.handle("POST /{id}", counted(&calls, func(w http.ResponseWriter, r *http.Request) {
		close(running)
		<-r.Context().Done() // the client has gone
		<-goOn
		text(w, 201, "done all the same")
	}), lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}"))
	ctx, hangUp := context.WithCancel(context.Background())
	client := make(chan error, 1)
	go func() {
		_, err := s.Send(s.NewRequest("POST", "/1", "body").WithContext(ctx))
		client <- err
	}()
	ruletest.Receive(t, "the handler", running)
	hangUp()
	ruletest.Receive(t, "the client", client)
	close(goOn)
	again := s.Do("POST", "/1", "body") // waits for the first, if need be
	if again.Status != 201 || again.Body != "done all the same" || !replayed(again) || calls.Load() != 1 {
		t.Errorf("answer = %+v after %d calls", again, calls.Load())
	}
}

// TestOnceOutlivesItsRetention: after it the request is a new one.
func TestOnceOutlivesItsRetention(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	s.handle("POST /{id}", counted(&calls, ok), lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}", core.WithRetention(20*time.Millisecond)))
	s.Do("POST", "/1", "")
	ruletest.Until(t, "the record to expire", func() bool {
		s.Do("POST", "/1", "")
		return calls.Load() > 1
	})
}
