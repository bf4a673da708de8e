package lockhttp_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestCoverage(t *testing.T) {
	byPath := func(r *http.Request) string { return r.URL.Path }
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("PUT /users/{id}", "user:{path.id}"),
		lockhttp.Once("POST /messages", "message:{body.id}"), lockhttp.SerializeBy("/messages", byPath),
		lockhttp.Idempotency("/pay", lockhttp.AnyCaller),
		lockhttp.Idempotency("/any", lockhttp.AnyCaller), lockhttp.OnceBy("/any", byPath), lockhttp.Serialize("DELETE /any", "any"),
		lockhttp.Serialize("PUT /some", "some").SkipIf(func(*http.Request) bool { return false }),
	)
	mux := http.NewServeMux()
	routes := locks.Routes(mux)
	for _, pattern := range []string{"PUT /users/{id}", "POST /messages", "GET /users/{id}", "POST /pay", "GET /pay", "/any", "PUT  /some"} {
		routes.HandleFunc(pattern, ok, requestID)
	}
	want := []string{
		"PUT /users/{id}: serialize user:{path.id}",
		"POST /messages: once message:{body.id}, serialize func",
		"GET /users/{id}: none",
		"POST /pay: once {header.idempotency-key}",
		"GET /pay: none",
		"/any: once {header.idempotency-key}, once func, serialize any unless skipped",
		"PUT  /some: serialize some unless skipped",
	}
	var got, partial []string
	for _, c := range routes.Coverage() {
		got = append(got, c.String())
		for _, r := range c.Rules {
			if r.Partial {
				partial = append(partial, r.Key)
			}
		}
	}
	if !slices.Equal(partial, []string{"any", "some"}) {
		t.Errorf("%q are partial", partial)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Coverage() =\n%q, want\n%q", got, want)
	}
	if left := coverage.Uncovered(routes.Coverage(), "GET /pay"); !slices.Equal(left, []string{"GET /users/{id}"}) {
		t.Errorf("Uncovered() = %v", left)
	}
	if err := routes.Check(); err != nil {
		t.Error(err)
	}
	var rules []string
	for _, c := range locks.Coverage() {
		rules = append(rules, c.Name)
	}
	if !slices.Equal(rules, []string{"PUT /users/{id}", "POST /messages", "/messages", "/pay", "/any", "DELETE /any", "PUT /some"}) {
		t.Errorf("the rules themselves: %q", rules)
	}

	// The routes are real ones, with their rules in order.
	s := ruletest.Serve(t, mux, false)
	if a := s.Do("PUT", "/users/1", ""); a.Status != 200 || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("answer = %+v", a)
	}
	s.Do("POST", "/messages", "").Problem(t, 400, "KEY_INVALID")
}

// TestCheck finds rules without a route, and templates that a route can't fill, and no others.
func TestCheck(t *testing.T) {
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("PUT /users/{id}", "user:{path.id}"),
		lockhttp.Once("PUT /files/{dir}/{path...}", "file:{path.dir}:{path.path}"),
		lockhttp.SerializeBy("POST /users/{$}", func(*http.Request) string { return "k" }),
		lockhttp.Serialize("POST /users/{$}", "user:{path.uid}").SkipIf(func(r *http.Request) bool { return r.PathValue("uid") == "" }),
		lockhttp.Serialize("/chi/{id:[^/]+}/{name}", "chi:{path.id}:{path.name}"),
		lockhttp.Serialize("/echo/:id/*", "echo:{path.id}"),
		lockhttp.Serialize("/gin/:id/*path", "gin:{path.id}:{path.path}"),
	)
	well := []string{"PUT /users/{id}", "PUT /files/{dir}/{path...}", "POST /users/{$}", "GET /chi/{id:[^/]+}/{name}", "PUT /echo/:id/*", "/gin/:id/*path", "GET /other"}
	if err := locks.Check(well...); err != nil {
		t.Errorf("routes that are well: %v", err)
	}
	if locks.Check(well[1:]...) == nil {
		t.Error("no error for a rule without a route")
	}

	locks = ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("DELETE /users/{id}", "user:{path.uid}:{path.id}:{path.tenant}:{path.uid}"),
		lockhttp.Once("GET /{$}", "root:{path.a}"),
		lockhttp.Serialize("DELETE /users", "a:{query.a}"), lockhttp.Serialize("DELETE /users", "b:{path.b}"),
		lockhttp.Serialize("PUT /misspelt", "c"),
		lockhttp.Serialize("PUT /items/:id", "item::id"),
	)
	all := []string{"DELETE /users/{id}", "GET /{$}", "DELETE /users", "PUT /mispelt", "PUT /items/:id"}
	ruletest.CheckJoined(t, errors.Unwrap(locks.Check(all...)),
		[]string{`"PUT /misspelt"`, "no such route"},
		[]string{`"DELETE /users/{id}"`, `"user:{path.uid}:{path.id}:{path.tenant}:{path.uid}"`, " {path.uid}, {path.tenant}:", "it has id"},
		[]string{`"GET /{$}"`, `"root:{path.a}"`, " {path.a}:", "none"},
		[]string{`"DELETE /users"`, `"b:{path.b}"`, " {path.b}:", "none"},
		[]string{`"PUT /items/:id"`, `"item::id"`, "literal text"},
	)
	if left := coverage.Uncovered(locks.Coverage(all...), "DELETE /users"); !slices.Equal(left, []string{"DELETE /users/{id}", "GET /{$}", "DELETE /users", "PUT /mispelt", "PUT /items/:id"}) {
		t.Errorf("Uncovered() = %v, want those whose rule can't work", left)
	}
}

// TestWhichRulesARequestGets: those of its route, in their order, also for HEAD; behind no router nobody
// knows its route.
func TestWhichRulesARequestGets(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	locks := ruletest.Locks(t, eng,
		lockhttp.Serialize("*", "all"),
		lockhttp.Serialize("GET /a/{id}", "get:{path.id}"),
		lockhttp.Serialize("/a/{id}", "any:{path.id}"),
		lockhttp.Serialize("POST /{$}", "root"),
	)
	show := func(w http.ResponseWriter, r *http.Request) {
		lease, _ := core.LeaseFrom(r.Context()) // the innermost
		w.Header().Set("Key", lease.Key())
	}
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /a/{id}", "/a/{id}", "/{$}", "/other"} {
		mux.Handle(pattern, locks.Middleware(http.HandlerFunc(show)))
	}
	s := ruletest.Serve(t, mux, false)
	for request, want := range map[[2]string]string{
		{"GET", "/a/1"}: "any:1", {"HEAD", "/a/1"}: "any:1", {"PUT", "/a/1"}: "any:1", {"GET", "/other"}: "all", {"POST", "/"}: "root", {"PUT", "/"}: "all",
	} {
		if a := s.Do(request[0], request[1], ""); a.Header.Get("Key") != want {
			t.Errorf("%s: %+v, want %s", request, a, want)
		}
	}
	outside := ruletest.Serve(t, locks.Middleware(mux), false)
	outside.Do("GET", "/a/1", "").Problem(t, 500, "INTERNAL")
}
