package routertest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestChiHasThePathValues(t *testing.T) {
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("PUT /users/{id}/status", "user:{path.id}"),
		lockhttp.Serialize("PUT /orders/{number:[0-9]*}", "order:{path.number}"),
		lockhttp.Serialize("PUT /groups/{group}/members/{member}", "group:{path.group}:{path.member}"),
	)
	mux := chi.NewRouter()
	mux.Use(middleware.CleanPath, middleware.StripSlashes)
	r := mux.With(locks.Middleware)
	r.Put("/users/{id}/status", keys)
	r.Put("/orders/{number:[0-9]*}", keys)
	mux.Route("/groups/{group}", func(r chi.Router) {
		r.With(locks.Middleware).Put("/members/{member}", keys)
	})
	s := ruletest.Serve(t, mux, false)
	for target, want := range map[string]string{
		"/users/42/status":             "user:42",
		"//users/42/status/":           "user:42",
		"/orders/7":                    "order:7",
		"/groups/7/members/42":         "group:7:42",
		"/groups//7/x/../members/42//": "group:7:42",
	} {
		if a := s.Do("PUT", target, ""); a.Status != 200 || a.Body != want {
			t.Errorf("%s: %d %s, want %s", target, a.Status, a.Body, want)
		}
	}
}

// Whatever the path, the handlers of sub-routers with equal parts run under the rules of their routes.
func TestNoWayAroundInChi(t *testing.T) {
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("/{id}", "root"), lockhttp.Serialize("/payments/", "payments"), lockhttp.Serialize("/payments/{id}", "payment"),
		lockhttp.Serialize("/refunds/{id}", "refund"), lockhttp.Serialize("/groups/{group}/{id}", "member"), lockhttp.Serialize("/groups/{group}/files/*", "file"), lockhttp.Serialize("/all", "own"))
	mux := chi.NewRouter()
	mux.With(locks.Middleware).Put("/{id}", keys)
	mux.With(locks.Middleware).Put("/all", keys)
	for _, front := range []string{"/payments", "/refunds", "/groups/{group}", "/v1/{group}"} {
		mux.Route(front, func(r chi.Router) {
			for _, own := range []string{"/", "/{id}", "/files/*", "/all"} {
				r.With(locks.Middleware).Put(own, keys)
			}
		})
	}
	for target, want := range map[string]string{
		"/1": "root", "/payments": "payments", "/payments/": "payments", "/payments/1": "payment", "/refunds/1": "refund", "/refunds/": "unlocked",
		"/groups/7/1": "member", "/groups//1": "member", "/groups/../1": "member", "/groups/7/files/1": "file", "/payments/files/1": "unlocked", "/payments/all": "unlocked", "/all": "own",
	} {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequest("PUT", target, nil))
		if rec.Body.String() != want {
			t.Errorf("%s: %d %s, want %s", target, rec.Code, rec.Body, want)
		}
	}
}

// A sub-router tells its handlers its own part of the pattern alone.
func TestIdempotencyOfChisRoutes(t *testing.T) {
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", user))
	var calls atomic.Int64
	count := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, calls.Add(1)) }
	r := chi.NewRouter()
	for _, name := range []string{"/payments", "/refunds"} {
		r.Route(name, func(r chi.Router) {
			r = r.With(locks.Middleware)
			r.Post("/", count)
			r.Post("/{id}", count)
		})
	}
	s := ruletest.Serve(t, r, false)
	post := func(target string) ruletest.Answer {
		return s.Do("POST", target, "ten", "User", "ada", "Idempotency-Key", "k")
	}
	for i, target := range []string{"/payments/1", "/refunds/1", "/payments", "/refunds"} {
		first := post(target)
		again := post(target)
		if first.Body != fmt.Sprint(i+1) || again.Body != first.Body || again.Header.Get(lockhttp.ReplayedHeader) != "true" {
			t.Errorf("%s: %d %s, and again %d %s", target, first.Status, first.Body, again.Status, again.Body)
		}
	}
	post("/payments/2").Problem(t, 422, "FINGERPRINT_MISMATCH") // one route, another path
}

// Walk lists the routes.
func TestCoverageOfChisRoutes(t *testing.T) {
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("PUT /users/{id}", "user:{path.id}"), lockhttp.Serialize("/groups/{group}/members/{member}", "group:{path.group}"))
	r := chi.NewRouter()
	r.With(locks.Middleware).Put("/users/{id}", keys)
	r.Get("/users/{id}", keys)
	r.Route("/groups/{group}", func(r chi.Router) { r.With(locks.Middleware).Put("/members/{member}", keys) })
	var routes []string
	err := chi.Walk(r, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+route)
		return nil
	})
	if err := errors.Join(err, locks.Check(routes...)); err != nil {
		t.Error(err)
	}
	if left := coverage.Uncovered(locks.Coverage(routes...)); !slices.Equal(left, []string{"GET /users/{id}"}) {
		t.Errorf("without a rule: %q", left)
	}
}
