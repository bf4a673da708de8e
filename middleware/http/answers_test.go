package lockhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// TestTheRequestsOwnEnd: a deadline and a cancel of the request itself are not contention.
func TestTheRequestsOwnEnd(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, eng, "user"))
	var seen error
	h := ruletest.Locks(t, eng, lockhttp.Serialize("*", "user")).WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err *reasons.Refusal) {
		lockhttp.DefaultErrorHandler(w, r, err)
		seen = err
	}).Middleware(http.HandlerFunc(ruletest.Done))
	for want, status := range map[error]int{context.DeadlineExceeded: 503, context.Canceled: 499} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if status == 499 {
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		cancel()
		p := lockhttp.ProblemOf(seen)
		check(t, rec.Code == status && p.Status == status && p.Title != "" && errors.Is(seen, want) && !errors.Is(seen, core.ErrHeld), "answer = %d %s, error = %v; want %d for %v", rec.Code, rec.Body, seen, status, want)
	}
}

func TestRetryAfterComesFromHowLongLocksAreHeld(t *testing.T) {
	held := &core.HeldError{Key: "k", Holder: "secret"}
	for _, tt := range []struct{ known, want time.Duration }{
		{0, time.Second},
		{-1, time.Second},
		{time.Millisecond, time.Second},
		{time.Second, time.Second},
		{time.Second + 1, 2 * time.Second},
		{3500 * time.Millisecond, 4 * time.Second},
	} {
		held.RetryAfter = tt.known
		if got := lockhttp.ProblemOf(held).RetryAfter; got != tt.want {
			t.Errorf("RetryAfter of %v = %v, want %v", tt.known, got, tt.want)
		}
	}
	full := &core.TooManyWaitersError{RetryAfter: 7 * time.Second}
	if got := lockhttp.ProblemOf(full).RetryAfter; got != 7*time.Second {
		t.Errorf("RetryAfter = %v, want what the engine estimated", got)
	}
}

// TestErrorHandler: it gets what the service needs for an answer of its own.
func TestErrorHandler(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, eng, "k:1"))
	told := make(chan *reasons.Refusal, 1)
	locks := ruletest.Locks(t, eng,
		lockhttp.Serialize("/{id}", "k:{path.id}", core.WithFailFast()),
		lockhttp.Serialize("/json/", "k:{body.id}"),
	).WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, refused *reasons.Refusal) {
		told <- refused
		w.WriteHeader(http.StatusTeapot)
	})
	s := newSite(t)
	s.handle("/{id}", ruletest.Done, locks.Middleware)
	s.handle("/json/", ruletest.Done, locks.Middleware)
	a := s.Do("POST", "/1", "")
	check(t, a.Status == http.StatusTeapot, "%+v", a)
	if got := <-told; got.Reason != reasons.LockHeld || got.Rule != "k:{path.id}" || got.Key != "k:1" || !got.Again || got.Ran || got.RetryAfter < time.Second || !errors.Is(got, core.ErrHeld) {
		t.Errorf("told %+v", got)
	}
	s.Do("POST", "/json/", "<xml/>", "Content-Type", "text/xml")
	if got := <-told; got.Reason != reasons.MediaType || got.Key != "" || got.Again {
		t.Errorf("told %+v", got)
	}
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	s.Do("POST", "/2", strings.Repeat("x", 100_000))
	if got := <-told; got.Reason != reasons.SpoolUnavailable || got.RetryAfter != time.Second || !got.Again {
		t.Errorf("told %+v", got)
	}
}

// TestALossThatCannotBeAnsweredIsLogged, as the response has been sent in part.
func TestALossThatCannotBeAnsweredIsLogged(t *testing.T) {
	s := newSite(t)
	ruletest.LogTo(t, s.Log)
	s.handle("GET /{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}", core.WithMaxHold(20*time.Millisecond))))
	a := s.Do("GET", "/42", "")
	check(t, a.Broken != nil, "answer = %+v, want it broken", a)
	ruletest.Until(t, "the log", func() bool { return strings.Contains(s.Log.String(), "lost") })
}

// TestTheWriterIsStillNetHTTPs, for those who look for its abilities.
func TestTheWriterIsStillNetHTTPs(t *testing.T) {
	s := newSite(t)
	s.handle("GET /{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		wantIs(t, "SetWriteDeadline", http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)), nil)
		wantIs(t, "Flush", http.NewResponseController(w).Flush(), nil)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "0\r\n\r\n") // the end of the chunked response that was begun
		rw.Flush()
		if _, err := w.Write([]byte("x")); err != http.ErrHijacked {
			t.Errorf("write after a hijack = %v", err)
		}
	}, ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}")))
	if a := s.Do("GET", "/1", ""); a.Status != 200 || a.Broken != nil {
		t.Errorf("answer = %+v", a)
	}
}

// TestAnInnerRefusalIsNoOutcome for a Once around the rule, whatever is answered and even if a part was sent:
// the repeat runs the handler.
func TestAnInnerRefusalIsNoOutcome(t *testing.T) {
	ruletest.LogTo(t, io.Discard)
	teapot := func(w http.ResponseWriter, _ *http.Request, _ *reasons.Refusal) { w.WriteHeader(http.StatusTeapot) }
	for name, tt := range map[string]struct {
		inner  core.CallOption
		held   string
		answer lockhttp.ErrorHandler
		status int // of the first answer
	}{
		"the client gave up":             {core.WithMaxWait(time.Minute), "user", nil, 499},
		"an answer of the service's own": {core.WithFailFast(), "user", teapot, 418},
		"a part was sent":                {core.WithMaxHold(20 * time.Millisecond), "another", nil, 200},
	} {
		eng := ruletest.NewEngine(t, ruletest.NewStore())
		locks := ruletest.Locks(t, eng, lockhttp.Once("*", "once"), lockhttp.Serialize("*", "user", tt.inner)).WithErrorHandler(tt.answer)
		first := true
		guarded := locks.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if first {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			fmt.Fprint(w, "done")
		}))
		s := ruletest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			if tt.status == 499 && first {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			guarded.ServeHTTP(w, r.WithContext(ctx))
			cancel()
		}), false)
		lease := ruletest.MustAcquire(t, eng, tt.held)
		a := s.Do("POST", "/", "")
		ruletest.MustRelease(t, lease)
		first = false
		again := s.Do("POST", "/", "")
		check(t, a.Status == tt.status && again.Body == "done" && !again.Replayed(), "%s: %+v, then %+v", name, a, again)
	}
}
