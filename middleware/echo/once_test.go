package lockecho_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

// counted counts the calls of a handler.
func counted(n *atomic.Int64, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		n.Add(1)
		return next(c)
	}
}

func replayed(a ruletest.Answer) bool { return a.Header.Get(lockecho.ReplayedHeader) == "true" }

// TestTheStoredResponseComesBack: status, headers and body.
func TestTheStoredResponseComesBack(t *testing.T) {
	tests := []struct {
		name    string
		handler echo.HandlerFunc
		status  int
		body    string
		header  map[string]string // of the repeat
	}{
		{
			name: "201 with headers",
			handler: func(c echo.Context) error {
				h := c.Response().Header()
				h.Set("Location", "/messages/7")
				h.Set("Etag", `"v1"`)
				h.Set("X-Kept", "yes")
				h.Set("X-Other", "no")
				h.Set("Set-Cookie", "session=secret")
				return c.JSON(201, map[string]int{"id": 7})
			},
			status: 201, body: "{\"id\":7}\n",
			header: map[string]string{"Content-Type": "application/json", "Location": "/messages/7", "Etag": `"v1"`, "X-Kept": "yes", "X-Other": "", "Set-Cookie": ""},
		},
		{name: "nothing written", handler: func(echo.Context) error { return nil }, status: 200},
		{name: "204", handler: func(c echo.Context) error { return c.NoContent(204) }, status: 204},
		{name: "a body without a status", handler: func(c echo.Context) error {
			_, err := c.Response().Writer.Write([]byte("raw"))
			return err
		}, status: 200, body: "raw"},
		{name: "a redirect", handler: func(c echo.Context) error { return c.Redirect(303, "/elsewhere") }, status: 303, header: map[string]string{"Location": "/elsewhere"}},
		{name: "binary", handler: func(c echo.Context) error { return c.Blob(200, "application/octet-stream", []byte("\x00\r\n\r\n\xff")) }, status: 200, body: "\x00\r\n\r\n\xff"},
		{name: "a status nobody knows", handler: func(c echo.Context) error { return c.String(299, "odd") }, status: 299, body: "odd"},
		{name: "an error that is an outcome", handler: func(echo.Context) error { return echo.NewHTTPError(404, "no such user") }, status: 404, body: "{\"message\":\"no such user\"}\n"},
		{name: "flushed", handler: func(c echo.Context) error {
			fmt.Fprint(c.Response(), "a")
			c.Response().Flush()
			fmt.Fprint(c.Response(), "b")
			return nil
		}, status: 200, body: "ab"},
		{name: "flushed before anything", handler: func(c echo.Context) error {
			c.Response().Flush()
			return c.String(200, "late")
		}, status: 200, body: "late"},
		{name: "an interim response before", handler: func(c echo.Context) error {
			c.Response().Writer.WriteHeader(http.StatusEarlyHints)
			return c.String(202, "then")
		}, status: 202, body: "then"},
		{name: "a header folded by an attacker", handler: func(c echo.Context) error {
			c.Response().Header()["X-Kept"] = []string{"a\r\nX-Injected: yes"}
			return c.NoContent(200)
		}, status: 200, header: map[string]string{"X-Injected": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			var calls atomic.Int64
			s.POST("/messages", counted(&calls, tt.handler), lockecho.OnceWithConfig(lockecho.OnceConfig{
				Engine: ruletest.NewEngine(t, ruletest.NewStore()), Template: "message:{body.id}", Headers: []string{"x-kept"},
			}))
			s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			first := s.Do("POST", "/messages", `{"id":1}`)
			again := s.Do("POST", "/messages", `{"id":1}`)
			if calls.Load() != 1 {
				t.Fatalf("the handler ran %d times", calls.Load())
			}
			if replayed(first) || !replayed(again) {
				t.Errorf("replayed: %v, then %v; want false, then true", replayed(first), replayed(again))
			}
			for _, a := range []ruletest.Answer{first, again} {
				if a.Status != tt.status || a.Body != tt.body || a.Broken != nil {
					t.Errorf("answer = %d %q, want %d %q", a.Status, a.Body, tt.status, tt.body)
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

// TestWhatIsStored: by the status of the response, whoever made it.
func TestWhatIsStored(t *testing.T) {
	returning := func(status int) echo.HandlerFunc {
		return func(echo.Context) error { return echo.NewHTTPError(status) }
	}
	writing := func(status int) echo.HandlerFunc {
		return func(c echo.Context) error { return c.String(status, "text") }
	}
	everything := func(int) bool { return true }
	for _, tt := range []struct {
		name     string
		handler  echo.HandlerFunc
		storable func(int) bool
		status   int
		stored   bool
	}{
		{"200", writing(200), nil, 200, true},
		{"400 written", writing(400), nil, 400, true},
		{"422 returned", returning(422), nil, 422, true},
		{"403", returning(403), nil, 403, true},
		{"401", returning(401), nil, 401, false},
		{"408", returning(408), nil, 408, false},
		{"409", returning(409), nil, 409, false},
		{"423", returning(423), nil, 423, false},
		{"425", returning(425), nil, 425, false},
		{"429", writing(429), nil, 429, false},
		{"500 returned", returning(500), nil, 500, false},
		{"500 written", writing(500), nil, 500, false},
		{"503", returning(503), nil, 503, false},
		{"any error", func(echo.Context) error { return errors.New("broken") }, nil, 500, false},
		{"the config's own choice", returning(503), everything, 503, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			var calls atomic.Int64
			s.POST("/:id", counted(&calls, tt.handler), lockecho.OnceWithConfig(lockecho.OnceConfig{
				Engine: ruletest.NewEngine(t, ruletest.NewStore()), Template: "m:{path.id}", Storable: tt.storable,
			}))
			first, again := s.Do("POST", "/1", ""), s.Do("POST", "/1", "")
			if first.Status != tt.status || again.Status != tt.status || first.Body != again.Body {
				t.Errorf("answers = %d %q, %d %q; want %d twice", first.Status, first.Body, again.Status, again.Body, tt.status)
			}
			if replayed(again) != tt.stored || calls.Load() != map[bool]int64{true: 1, false: 2}[tt.stored] {
				t.Errorf("replayed = %v after %d calls, want stored = %v", replayed(again), calls.Load(), tt.stored)
			}
		})
	}
}

// TestTheErrorHandlerDecidesTheStatus: an error means what the application's
// HTTPErrorHandler makes of it, and is answered once.
func TestTheErrorHandlerDecidesTheStatus(t *testing.T) {
	errNoFunds := errors.New("no funds")
	s := newSite(t)
	var calls, answers atomic.Int64
	s.HTTPErrorHandler = func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		if errors.Is(err, errNoFunds) {
			answers.Add(1)
			_ = c.String(http.StatusPaymentRequired, "no funds")
		}
		// Any other error is left unanswered.
	}
	locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
	s.POST("/pay/:id", counted(&calls, func(echo.Context) error { return errNoFunds }), locks.Once("pay:{path.id}"))
	s.POST("/odd/:id", counted(&calls, func(echo.Context) error { return errors.New("odd") }), locks.Once("odd:{path.id}"))

	first, again := s.Do("POST", "/pay/1", ""), s.Do("POST", "/pay/1", "")
	if first.Status != 402 || first.Body != "no funds" || again.Status != 402 || again.Body != "no funds" || !replayed(again) {
		t.Errorf("answers = %+v, %+v", first, again)
	}
	if calls.Load() != 1 || answers.Load() != 1 {
		t.Errorf("%d calls, %d answers, want one of each", calls.Load(), answers.Load())
	}
	calls.Store(0)
	s.Do("POST", "/odd/1", "")
	if again := s.Do("POST", "/odd/1", ""); replayed(again) || calls.Load() != 2 {
		t.Errorf("an unanswered error was stored: %+v after %d calls", again, calls.Load())
	}
}

// TestAResponseOverTheLimit reaches its client whole, and is not run again.
func TestAResponseOverTheLimit(t *testing.T) {
	text := strings.Repeat("0123456789", 500)
	oneWrite := func(c echo.Context) error { return c.String(200, text) }
	manyWrites := func(c echo.Context) error {
		c.Response().Header().Set("Content-Type", "text/plain")
		for i := 0; i < len(text); i += 10 {
			fmt.Fprint(c.Response(), text[i:i+10])
		}
		return nil
	}
	for _, tt := range []struct {
		name    string
		handler echo.HandlerFunc
		limit   int
		stored  bool
	}{
		{"under", oneWrite, 6000, true},
		{"in one write", oneWrite, 4000, false},
		{"in many writes", manyWrites, 4000, false},
		{"by its headers", oneWrite, len(text) + 10, false},
		{"next to nothing", oneWrite, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			var calls atomic.Int64
			s.POST("/:id", counted(&calls, tt.handler), lockecho.OnceWithConfig(lockecho.OnceConfig{
				Engine: ruletest.NewEngine(t, ruletest.NewStore(), core.WithResultLimit(5)), Template: "m:{path.id}", ResultLimit: tt.limit,
			}))
			if a := s.Do("POST", "/1", ""); a.Status != 200 || a.Body != text || a.Broken != nil {
				t.Fatalf("answer = %d with %d bytes, %v; want all of it", a.Status, len(a.Body), a.Broken)
			}
			again := s.Do("POST", "/1", "")
			if calls.Load() != 1 {
				t.Errorf("the handler ran %d times", calls.Load())
			}
			if tt.stored {
				if again.Body != text || !replayed(again) {
					t.Errorf("repeat = %+v, want the response", again)
				}
				return
			}
			again.Problem(t, 409, "RESULT_NOT_KEPT")
			again.CheckRetryAfter(t, false)
		})
	}
}

// TestStreamsPass: what is flushed is on its way at once, and what takes over
// the connection has it.
func TestStreamsPass(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	goOn := make(chan struct{})
	locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
	stream := counted(&calls, func(c echo.Context) error {
		fmt.Fprint(c.Response(), "first")
		c.Response().Flush()
		<-goOn
		fmt.Fprint(c.Response(), "second")
		return nil
	})
	hijack := counted(&calls, func(c echo.Context) error {
		conn, rw, err := c.Response().Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nraw")
		return rw.Flush()
	})
	s.GET("/stream/once/:id", stream, locks.Once("stream:{path.id}"))
	s.GET("/stream/serialize/:id", stream, locks.Serialize("s:{path.id}"))
	s.GET("/hijack/once/:id", hijack, locks.Once("hijack:{path.id}"))
	s.GET("/hijack/serialize/:id", hijack, locks.Serialize("h:{path.id}"))

	for _, kind := range []string{"once", "serialize"} {
		res, err := s.Client().Do(s.NewRequest("GET", "/stream/"+kind+"/1", ""))
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != "first" {
			t.Errorf("%s: before the end: %q, %v", kind, begin, err)
		}
		goOn <- struct{}{}
		if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "second" {
			t.Errorf("%s: then: %q, %v", kind, rest, err)
		}
		res.Body.Close()
		if a := s.Do("GET", "/hijack/"+kind+"/1", ""); a.Body != "raw" {
			t.Errorf("%s: hijacked: %+v", kind, a)
		}
	}
	before := calls.Load()
	s.Do("GET", "/hijack/once/1", "").Problem(t, 409, "RESULT_NOT_KEPT")
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
	s.POST("/:id", counted(&calls, func(c echo.Context) error {
		close(running)
		<-c.Request().Context().Done() // the client has gone
		<-goOn
		return c.String(201, "done all the same")
	}), lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}"))

	ctx, hangUp := context.WithCancel(context.Background())
	client := make(chan error, 1)
	go func() {
		_, err := s.Send(s.NewRequest("POST", "/1", "body").WithContext(ctx))
		client <- err
	}()
	ruletest.Receive(t, "the handler", running)
	hangUp()
	if err := ruletest.Receive(t, "the client", client); err == nil {
		t.Error("the client got an answer")
	}
	close(goOn)
	again := s.Do("POST", "/1", "body") // waits for the first, if need be
	if again.Status != 201 || again.Body != "done all the same" || !replayed(again) || calls.Load() != 1 {
		t.Errorf("answer = %+v after %d calls", again, calls.Load())
	}
}

// TestATwinWaits for the first and gets its response.
func TestATwinWaits(t *testing.T) {
	s, st := newSite(t), ruletest.NewStore()
	var calls atomic.Int64
	running, goOn := make(chan struct{}), make(chan struct{})
	s.POST("/:id", counted(&calls, func(c echo.Context) error {
		close(running)
		<-goOn
		return c.String(200, "first")
	}), lockecho.New(ruletest.NewEngine(t, st)).Once("m:{path.id}"))
	answers := make(chan ruletest.Answer, 2)
	post := func() { answers <- s.Do("POST", "/1", "") }
	go post()
	ruletest.Receive(t, "the handler", running)
	go post()
	ruletest.Until(t, "the twin to wait", func() bool { return st.Asked() == 1 })
	close(goOn)
	first, second := ruletest.Receive(t, "an answer", answers), ruletest.Receive(t, "an answer", answers)
	if first.Body != "first" || second.Body != "first" || replayed(first) == replayed(second) || calls.Load() != 1 {
		t.Errorf("answers = %+v, %+v after %d calls", first, second, calls.Load())
	}
}

// TestFingerprint: what makes a request another one.
func TestFingerprint(t *testing.T) {
	same, other := 200, 422
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
			s := newSite(t)
			s.Any("/:id", ok, lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{header.key}", tt.opts...))
			s.Do("POST", "/a?x=1", "1", "Key", "k")
			if a := s.Do(tt.method, tt.target, tt.body, append(tt.header, "Key", "k")...); a.Status != tt.status {
				t.Errorf("answer = %+v, want %d", a, tt.status)
			}
		})
	}
}

// TestABodyThatIsGone: an earlier middleware has read it. A form it has decoded
// will do; otherwise it is a mistake in the service, and said so.
func TestABodyThatIsGone(t *testing.T) {
	s := newSite(t)
	s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			_ = c.FormValue("csrf")
			if c.Request().Header.Get("Content-Type") == asJSON {
				_, _ = io.ReadAll(c.Request().Body)
			}
			return next(c)
		}
	})
	locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
	s.POST("/form/:id", func(c echo.Context) error { return c.String(200, c.FormValue("to")) },
		locks.Once("m:{path.id}:{form.to}"))
	s.POST("/once/:id", func(c echo.Context) error { return c.String(200, c.FormValue("to")) }, locks.Once("n:{path.id}"))
	s.POST("/body/:id", ok, locks.Serialize("b:{body.id}"))

	if a := s.Do("POST", "/form/1", "csrf=x&to=ada", "Content-Type", asForm); a.Status != 200 || a.Body != "ada" {
		t.Errorf("a decoded form: %+v", a)
	}
	form, formType := ruletest.MultipartBody(t, "to", "ada")
	s.Do("POST", "/form/1", form, "Content-Type", formType).Problem(t, 500, "INTERNAL")
	s.Do("POST", "/once/1", "to=ada", "Content-Type", asForm)
	s.Do("POST", "/once/1", "to=eve", "Content-Type", asForm).Problem(t, 422, "FINGERPRINT_MISMATCH")
	s.Do("POST", "/body/1", `{"id":1}`, "Content-Type", asJSON).Problem(t, 500, "INTERNAL")
	if log := s.Log.String(); !strings.Contains(log, "read before") {
		t.Errorf("log = %q, want the reason", log)
	}
}

// TestOnceAroundSerialize: a refusal of the inner rule is no outcome.
func TestOnceAroundSerialize(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	locks := lockecho.New(eng)
	s := newSite(t)
	s.POST("/:id", ok, locks.Once("once:{path.id}"), locks.Serialize("user:{path.id}", core.WithFailFast()))
	lease := ruletest.MustAcquire(t, eng, "user:1")
	s.Do("POST", "/1", "").Problem(t, 409, "LOCK_HELD")
	ruletest.MustRelease(t, lease)
	if a := s.Do("POST", "/1", ""); a.Status != 200 || replayed(a) {
		t.Errorf("answer = %+v, want the handler's", a)
	}
	if a := s.Do("POST", "/1", ""); a.Status != 200 || !replayed(a) {
		t.Errorf("answer = %+v, want the stored one", a)
	}
}

// TestOnceInsideCompression: the record is what the handler wrote, and each
// client gets it in the encoding that it takes.
func TestOnceInsideCompression(t *testing.T) {
	s := newSite(t)
	s.Use(middleware.Gzip())
	text := strings.Repeat("compressible ", 100)
	s.POST("/:id", func(c echo.Context) error { return c.String(200, text) }, lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}"))
	for _, encoding := range []string{"gzip", "identity"} { // the transport decodes only what it asked for
		a := s.Do("POST", "/1", "", "Accept-Encoding", encoding)
		if gzipped := bytes.HasPrefix([]byte(a.Body), []byte{0x1f, 0x8b}); gzipped != (encoding == "gzip") {
			t.Errorf("%s: got %.20q", encoding, a.Body)
		}
	}
}

// TestOnceOutlivesItsRetention: after it the request is a new one.
func TestOnceOutlivesItsRetention(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	s.POST("/:id", counted(&calls, ok), lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}", core.WithRetention(20*time.Millisecond)))
	s.Do("POST", "/1", "")
	ruletest.Until(t, "the record to expire", func() bool {
		s.Do("POST", "/1", "")
		return calls.Load() > 1
	})
}

// TestALostLeaseStoresNothing: the next request runs the handler.
func TestALostLeaseStoresNothing(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	s.POST("/:id", counted(&calls, func(c echo.Context) error {
		if calls.Load() == 1 {
			return untilLost(c)
		}
		return ok(c)
	}), lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m:{path.id}", core.WithMaxHold(20*time.Millisecond)))
	s.Do("POST", "/1", "").Problem(t, 409, "LEASE_LOST")
	if a := s.Do("POST", "/1", ""); a.Status != 200 || replayed(a) || calls.Load() != 2 {
		t.Errorf("answer = %+v after %d calls", a, calls.Load())
	}
}
