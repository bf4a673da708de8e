package routertest

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestChiHasThePathValues(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	r := chi.NewRouter()
	r.With(locks.Serialize("user:{path.id}")).Put("/users/{id}/status", keys)
	r.With(locks.Serialize("order:{path.number}")).Put("/orders/{number:[0-9]*}", keys)
	r.Route("/groups/{group}", func(r chi.Router) {
		r.With(locks.Serialize("group:{path.group}:{path.member}")).Put("/members/{member}", keys)
	})
	s := ruletest.Serve(t, r, false)
	for target, want := range map[string]string{
		"/users/42/status":     "user:42",
		"/orders/7":            "order:7",
		"/groups/7/members/42": "group:7:42",
	} {
		if a := s.Do("PUT", target, ""); a.Status != 200 || a.Body != want {
			t.Errorf("%s: %d %s, want %s", target, a.Status, a.Body, want)
		}
	}
}

// A sub-router tells its handlers its own part of the pattern alone.
func TestIdempotencyOfChisRoutes(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	var calls atomic.Int64
	count := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, calls.Add(1)) }
	r := chi.NewRouter()
	for _, name := range []string{"/payments", "/refunds"} {
		r.Route(name, func(r chi.Router) {
			r = r.With(locks.Idempotency(user))
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
		if first.Body != fmt.Sprint(i+1) || again.Body != first.Body || again.Header.Get(replayed) != "true" {
			t.Errorf("%s: %d %s, and again %d %s", target, first.Status, first.Body, again.Status, again.Body)
		}
	}
	post("/payments/2").Problem(t, 422, "FINGERPRINT_MISMATCH") // one route, another path
}

// Walk knows each route's middleware, as RuleOf's documentation says.
func TestCoverageOfChisRoutes(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	r := chi.NewRouter()
	r.With(locks.Serialize("user:{path.id}")).Put("/users/{id}", keys)
	r.Get("/users/{id}", keys)
	var covered []string
	err := chi.Walk(r, func(method, route string, _ http.Handler, middlewares ...func(http.Handler) http.Handler) error {
		for _, m := range middlewares {
			if info, ok := lockhttp.RuleOf(m, method); ok {
				covered = append(covered, method+" "+route+" "+info.Key)
			}
		}
		return nil
	})
	if want := []string{"PUT /users/{id} user:{path.id}"}; err != nil || !slices.Equal(covered, want) {
		t.Errorf("covered %q, %v; want %q", covered, err, want)
	}
}
