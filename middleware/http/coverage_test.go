package lockhttp_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestCoverage(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	mux := http.NewServeMux()
	routes := lockhttp.Watch(mux)
	calls := 0
	foreign := func(next http.Handler) http.Handler {
		calls++
		return requestID(locks.Serialize("hidden")(next))
	}
	composed := func(next http.Handler) http.Handler {
		return locks.Serialize("outer")(locks.Serialize("inner")(next))
	}
	nothing := func(next http.Handler) http.Handler { return next }
	byPath := func(r *http.Request) string { return r.URL.Path }
	pay := locks.Idempotency(lockhttp.AnyCaller)

	routes.HandleFunc("PUT /users/{id}", ok, requestID, locks.Serialize("user:{path.id}"))
	routes.HandleFunc("POST /messages", ok, locks.Once("message:{body.id}"), locks.SerializeBy(byPath))
	routes.HandleFunc("GET /users/{id}", ok)
	routes.HandleFunc("POST /pay", ok, pay)
	routes.HandleFunc("GET /pay", ok, pay)
	routes.HandleFunc("/any", ok, pay, locks.OnceBy(byPath))
	routes.HandleFunc("PUT /foreign", ok, foreign)
	routes.HandleFunc("PUT /composed", ok, locks.Serialize("first"), composed, nothing, locks.Serialize("last"))
	if calls != 1 {
		t.Errorf("the foreign middleware was called %d times, want once, for its handler", calls)
	}
	want := []string{
		"PUT /users/{id}: serialize user:{path.id}",
		"POST /messages: once message:{body.id}, serialize func",
		"GET /users/{id}: none",
		"POST /pay: once {header.idempotency-key}",
		"GET /pay: none",
		"/any: once {header.idempotency-key}, once func",
		"PUT /foreign: none",
		"PUT /composed: serialize first, serialize outer, serialize inner, serialize last",
	}
	var got []string
	for _, c := range routes.Coverage() {
		got = append(got, c.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("Coverage() =\n%q, want\n%q", got, want)
	}
	if left := coverage.Uncovered(routes.Coverage(), "GET /pay", "PUT /foreign"); !slices.Equal(left, []string{"GET /users/{id}"}) {
		t.Errorf("Uncovered() = %v", left)
	}

	// The routes are real ones, with their rules in order.
	s := ruletest.Serve(t, mux, false)
	if a := s.Do("PUT", "/users/1", ""); a.Status != 200 || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("answer = %+v", a)
	}
	s.Do("POST", "/messages", "").Problem(t, 400, "KEY_INVALID")
}

// TestCheck finds the templates that a route can't fill, and no others.
func TestCheck(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	some, err := lockhttp.SerializeConfig{
		Engine: ruletest.NewEngine(t, ruletest.NewStore()), Template: "user:{path.uid}",
		Skipper: func(r *http.Request) bool { return r.PathValue("uid") == "" },
	}.ToMiddleware()
	if err != nil {
		t.Fatal(err)
	}
	routes := lockhttp.Watch(http.NewServeMux())
	routes.HandleFunc("PUT /users/{id}", ok, locks.Serialize("user:{path.id}"))
	routes.HandleFunc("PUT /files/{dir}/{path...}", ok, locks.Once("file:{path.dir}:{path.path}"))
	routes.HandleFunc("POST /users/{$}", ok, locks.SerializeBy(func(*http.Request) string { return "k" }), some)
	if err := routes.Check(); err != nil {
		t.Errorf("routes that are well: %v", err)
	}

	routes.HandleFunc("DELETE /users/{id}", ok, requestID, locks.Serialize("user:{path.uid}:{path.id}:{path.tenant}:{path.uid}"))
	routes.HandleFunc("GET /{$}", ok, locks.Once("root:{path.a}"))
	routes.HandleFunc("DELETE /users", ok, locks.Serialize("a:{query.a}"), locks.Serialize("b:{path.b}"))
	ruletest.CheckJoined(t, routes.Check(),
		[]string{`"DELETE /users/{id}"`, `"user:{path.uid}:{path.id}:{path.tenant}:{path.uid}"`, " {path.uid}, {path.tenant}:", "it has id"},
		[]string{`"GET /{$}"`, `"root:{path.a}"`, " {path.a}:", "none"},
		[]string{`"DELETE /users"`, `"b:{path.b}"`, " {path.b}:", "none"},
	)
	if left := coverage.Uncovered(routes.Coverage(), "DELETE /users"); !slices.Equal(left, []string{"DELETE /users/{id}", "GET /{$}", "DELETE /users"}) {
		t.Errorf("Uncovered() = %v, want those whose rule can't work", left)
	}
}

// TestCheckOfAnotherRouter complains of nothing: it may be mounted where there are
// more parameters.
func TestCheckOfAnotherRouter(t *testing.T) {
	routes := lockhttp.Watch(otherMux{http.NewServeMux()})
	routes.HandleFunc("PUT /status", ok, lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize("user:{path.id}"))
	if err := routes.Check(); err != nil {
		t.Error(err)
	}
}

type otherMux struct{ *http.ServeMux }

func TestRuleOf(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	if info, ok := lockhttp.RuleOf(locks.Serialize("a"), "GET"); !ok || info != (coverage.Rule{Key: "a"}) {
		t.Errorf("RuleOf() = %v, %v", info, ok)
	}
	if _, ok := lockhttp.RuleOf(locks.Idempotency(lockhttp.AnyCaller), "GET"); ok {
		t.Error("an idempotency rule for GET")
	}
	if _, ok := lockhttp.RuleOf(nil, "GET"); ok {
		t.Error("a rule in nil")
	}
	if _, ok := lockhttp.RuleOf(func(http.Handler) http.Handler { panic("called") }, "GET"); ok {
		t.Error("a rule in a foreign middleware")
	}
}
