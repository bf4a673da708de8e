package lockhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestConstructionRefuses(t *testing.T) {
	eng := ruletest.NewEngine(t, memstore.New())
	for _, tt := range []struct {
		name  string
		eng   *core.Engine
		rules []lockhttp.Rule
		want  []string // all of them in one error
		is    error
	}{
		{name: "no engine and no rules", want: []string{"an engine"}},
		{name: "the zero rule", eng: eng, rules: []lockhttp.Rule{{}}, want: []string{"want a route", "neither a template nor a key function: want one of them"}},
		{name: "a method alone", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("PUT ", "a")}, want: []string{"want a route"}},
		{name: "no function", eng: eng, rules: []lockhttp.Rule{lockhttp.SerializeBy("*", nil), lockhttp.SerializeKeys("*", nil), lockhttp.OnceBy("/once", nil)}, want: []string{"neither a template", `route "/once"`}},
		{name: "elements of a path value", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("*", "{path.id[*]}")}, want: []string{"path has a single value"}},
		{name: "a body for the handler that the key comes from", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("*", "{form.id}").StreamBody()}, want: []string{"StreamBody(true)"}, is: core.ErrInvalidOption},
		{name: "nobody says who calls", eng: eng, rules: []lockhttp.Rule{lockhttp.Idempotency("*", nil)}, want: []string{"identifies the caller"}},
		{name: "what only Once has", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("*", "a").StoredHeaders("A")}, want: []string{"Storable and StoredHeaders"}},
		{name: "what only Idempotency has", eng: eng, rules: []lockhttp.Rule{lockhttp.Once("*", "a").Optional()}, want: []string{"Header and Optional"}},
		{name: "one rule twice", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("/a", "a"), lockhttp.Serialize("/a", "a")}, want: []string{`"/a"`, "already one with the key a"}},
		{name: "two policies", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("/a", "a"), lockhttp.Serialize("/a", "b", core.WithMaxWait(time.Second))}, want: []string{`"/a"`, "options other than the mode"}},
		{name: "StreamBody of one", eng: eng, rules: []lockhttp.Rule{lockhttp.Serialize("/a", "a"), lockhttp.Serialize("/a", "b").StreamBody()}, want: []string{`"/a"`, "StreamBody for all"}},
		{
			name: "all of Idempotency at once", eng: eng,
			rules: []lockhttp.Rule{lockhttp.Idempotency("post /a", nil, core.WithRetention(0), core.WithResultLimit(-1)).Header("a b").BodyLimit(-1)},
			want:  []string{"identifies the caller", "Header(a b)", "Methods(post)", "BodyLimit", "WithResultLimit", "WithRetention"},
			is:    core.ErrInvalidOption,
		},
		{
			name:  "all rules at once",
			rules: []lockhttp.Rule{lockhttp.Once("/a", "{cookie.a}", core.WithMaxWait(-1)).BodyLimit(-1), lockhttp.Once("/b", "b").StoredHeaders("a b", "Content-Length")},
			want:  []string{`route "/a"`, "want an engine", "{cookie.a}", "BodyLimit(-1)", "WithMaxWait", `route "/b"`, `"a b"`, "Content-Length"},
			is:    core.ErrInvalidOption,
		},
	} {
		locks, err := lockhttp.New(tt.eng, tt.rules...)
		if err == nil || locks != nil || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: New() = %v, want an error that is %v, and nothing else", tt.name, err, tt.is)
		}
		for _, want := range append(tt.want, "lockhttp: ") {
			check(t, strings.Contains(fmt.Sprint(err), want), "%s: error = %v, want it to say %q", tt.name, err, want)
		}
	}
}

func TestSkipIfAndBodyLimit(t *testing.T) {
	rule := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("*", "b:{body|hash}").BodyLimit(10).SkipIf(func(r *http.Request) bool { return r.FormValue("skip") != "" }))
	s := newSite(t)
	s.handle("PUT /", func(w http.ResponseWriter, r *http.Request) {
		_, locked := core.LeaseFrom(r.Context())
		fmt.Fprint(w, locked)
	}, rule)
	if a := s.Do("PUT", "/?skip=1", strings.Repeat("x", 11)); a.Body != "false" {
		t.Errorf("skipped: %+v", a)
	}
	if a := s.Do("PUT", "/", strings.Repeat("x", 10)); a.Body != "true" {
		t.Errorf("not skipped: %+v", a)
	}
	s.Do("PUT", "/", strings.Repeat("x", 11)).Problem(t, 413, "BODY_TOO_LARGE")
	chunked := s.NewRequest("PUT", "/", strings.Repeat("x", 11))
	chunked.ContentLength = -1
	a, err := s.Send(chunked)
	must(t, err)
	a.Problem(t, 413, "BODY_TOO_LARGE")
}

// TestStreamBodyBesideOtherRules: they would read the body while the upload's key is held.
func TestStreamBodyBesideOtherRules(t *testing.T) {
	all := []lockhttp.Rule{lockhttp.Serialize("*", "all", core.WithShared()), lockhttp.Serialize("POST /up", "up").StreamBody()}
	for range 2 {
		body, client := io.Pipe()
		late := time.AfterFunc(5*time.Second, func() { client.Close() })
		inTime := false
		h := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), all...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			inTime = late.Stop()
			go client.Close() // the body ends when the handler has begun
			wantNil(t, checktest.ErrorOf(io.ReadAll(r.Body)))
		}))
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/up", body)
		req.Pattern = "POST /up"
		h.ServeHTTP(httptest.NewRecorder(), req)
		check(t, inTime, "the body was read before the handler began")
		slices.Reverse(all)
	}
}

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
		routes.HandleFunc(pattern, ruletest.Done, ruletest.RequestID)
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
	check(t, slices.Equal(partial, []string{"any", "some"}), "%q are partial", partial)
	check(t, slices.Equal(got, want), "Coverage() =\n%q, want\n%q", got, want)
	left := coverage.Uncovered(routes.Coverage(), "GET /pay")
	check(t, slices.Equal(left, []string{"GET /users/{id}"}), "Uncovered() = %v", left)
	wantNil(t, routes.Check())
	var rules []string
	for _, c := range locks.Coverage() {
		rules = append(rules, c.Name)
	}
	check(t, slices.Equal(rules, []string{"PUT /users/{id}", "POST /messages", "/messages", "/pay", "/any", "DELETE /any", "PUT /some"}), "the rules themselves: %q", rules)

	// The routes are real ones, with their rules in order.
	s := ruletest.Serve(t, mux, false)
	a := s.Do("PUT", "/users/1", "")
	check(t, a.Status == 200 && a.Header.Get("X-Request-Id") != "", "answer = %+v", a)
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
	wantIs(t, "routes that are well", locks.Check(well...), nil)
	check(t, locks.Check(well[1:]...) != nil, "no error for a rule without a route")

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
	left := coverage.Uncovered(locks.Coverage(all...), "DELETE /users")
	check(t, slices.Equal(left, []string{"DELETE /users/{id}", "GET /{$}", "DELETE /users", "PUT /mispelt", "PUT /items/:id"}), "Uncovered() = %v, want those whose rule can't work", left)
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
