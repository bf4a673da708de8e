package lockhttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// requestID is an outer middleware that sets a header.
func requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		next.ServeHTTP(w, r)
	})
}

// TestTheRequestsOwnEnd: a deadline and a cancel of the request itself are not
// contention.
func TestTheRequestsOwnEnd(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	seen := make(chan error, 1)
	rule := ruletest.Locks(t, eng, lockhttp.Serialize("*", "user:{path.id}")).WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err *reasons.Refusal) {
		lockhttp.DefaultErrorHandler(w, r, err)
		seen <- err
	}).Middleware
	deadline := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	s := newSite(t)
	s.handle("GET /short/{id}", ok, deadline, rule)
	s.handle("GET /long/{id}", ok, rule)

	s.Do("GET", "/short/42", "").Problem(t, 503, "DEADLINE_EXCEEDED")
	if err := ruletest.Receive(t, "the error", seen); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrHeld) {
		t.Errorf("error = %v, want DeadlineExceeded and not ErrHeld", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Send(s.NewRequest("GET", "/long/42", "").WithContext(ctx)); err == nil {
		t.Fatal("the client got an answer")
	}
	err := ruletest.Receive(t, "the error", seen)
	if p := lockhttp.ProblemOf(err); !errors.Is(err, context.Canceled) || p.Status != 499 || p.Title == "" {
		t.Errorf("error = %v, want 499 for Canceled", err)
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
	told := make(chan *reasons.Refusal, 1)
	locks := ruletest.Locks(t, eng,
		lockhttp.Serialize("/{id}", "k:{path.id}", core.WithFailFast()),
		lockhttp.Serialize("/json/", "k:{body.id}"),
	).WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, refused *reasons.Refusal) {
		told <- refused
		w.WriteHeader(http.StatusTeapot)
	})
	mux := http.NewServeMux()
	mux.Handle("/{id}", locks.Middleware(http.HandlerFunc(ruletest.Done)))
	mux.Handle("/json/", locks.Middleware(http.HandlerFunc(ruletest.Done)))
	s := ruletest.Serve(t, mux, false)
	lease := ruletest.MustAcquire(t, eng, "k:1")
	if a := s.Do("POST", "/1", ""); a.Status != http.StatusTeapot {
		t.Errorf("%+v", a)
	}
	if got := <-told; got.Reason != reasons.LockHeld || got.Rule != "k:{path.id}" || got.Key != "k:1" || !got.Again || got.Ran || got.RetryAfter < time.Second || !errors.Is(got, core.ErrHeld) {
		t.Errorf("told %+v", got)
	}
	ruletest.MustRelease(t, lease)
	if a := s.Do("POST", "/json/", "<xml/>", "Content-Type", "text/xml"); a.Status != http.StatusTeapot {
		t.Errorf("%+v", a)
	}
	if got := <-told; got.Reason != reasons.MediaType || got.Key != "" || got.Again {
		t.Errorf("told %+v", got)
	}
}
