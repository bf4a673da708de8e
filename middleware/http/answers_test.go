package lockhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
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

// TestTheServersOwnFaultIsLogged: the client is not told.
func TestTheServersOwnFaultIsLogged(t *testing.T) {
	log := quiet(t)
	s := newSite(t)
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s.handle("GET /users/{id}", ok, ruletest.Middleware(t, eng, lockhttp.Serialize("*", "user:{path.user_id}")))
	s.Do("GET", "/users/42", "").Problem(t, 500, "INTERNAL")
	if said := log.String(); !strings.Contains(said, "path.user_id") || !strings.Contains(said, "/users/{id}") {
		t.Errorf("log = %q, want the placeholder and the route", said)
	}
	outside := ruletest.Serve(t, ruletest.Middleware(t, eng, lockhttp.Serialize("*", "user:{path.id}"))(s.ServeMux), false)
	outside.Do("GET", "/users/42", "").Problem(t, 500, "INTERNAL")
	if said := log.String(); !strings.Contains(said, "behind the router") {
		t.Errorf("log = %q, want what is wrong with the order", said)
	}
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

func TestErrorHandlerTakesOver(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	locks := ruletest.Locks(t, eng, lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast())).
		WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err *reasons.Refusal) {
			var held *core.HeldError
			if !errors.As(err, &held) || held.Key != "user:42" || held.Holder != lease.Owner() {
				t.Errorf("error = %v, want core's, with the holder for those who log", err)
			}
			text(w, http.StatusTeapot, lockhttp.ProblemOf(err).Reason)
		})
	s := newSite(t)
	s.handle("GET /users/{id}", ok, locks.Middleware)
	if a := s.Do("GET", "/users/42", ""); a.Status != http.StatusTeapot || a.Body != "LOCK_HELD" {
		t.Errorf("answer = %+v", a)
	}
}
