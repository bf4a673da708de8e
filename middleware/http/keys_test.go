package lockhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

// keysOf are the keys that a request runs under, joined by |.
func keysOf(t testing.TB, r *http.Request) string {
	lease, found := core.LeaseFrom(r.Context())
	if !found {
		t.Error("the handler runs without a lease")
		return ""
	}
	var keys []string
	for _, claim := range lease.Claims() {
		keys = append(keys, claim.Key)
	}
	return strings.Join(keys, "|")
}

// TestKeys: which key a template makes of which request, seen by the handler,
// who reads the body again. What is hostile is refused, with 400.
func TestKeys(t *testing.T) {
	form, formType := ruletest.MultipartBody(t, "name", "Ada", "tag", "a", "tag", "b")
	many := `{"m":[1` + strings.Repeat(",1", 4096) + `]}`
	for _, tt := range []struct {
		name     string
		template string
		target   string // default: /users/42
		body     string
		as       string // its Content-Type
		header   string // of X-Tenant, lines divided by |
		keys     string
		detail   string // of the refusal
	}{
		{name: "a constant", template: "cron", keys: "cron"},
		{name: "a path value", template: "user:{path.id}", keys: "user:42"},
		{name: "a path value is escaped", template: "user:{path.id}", target: "/users/a:b", keys: "user:a%3Ab"},
		{name: "a path spelt differently is the same path", template: "user:{path.id}", target: "/users/%34%32", keys: "user:42"},
		{name: "an encoded slash stays in the value", template: "user:{path.id}", target: "/users/a%2Fb", keys: "user:a%2Fb"},
		{name: "braces in the path", template: "user:{path.id}", target: "/users/foo%7Dbar", keys: "user:foo%7Dbar"},
		{name: "NUL in the path", template: "user:{path.id}", target: "/users/%00", keys: "user:%00"},
		{name: "CRLF in the path", template: "user:{path.id}", target: "/users/a%0d%0ab", keys: "user:a%0D%0Ab"},
		{name: "no UTF-8 in the path", template: "user:{path.id}", target: "/users/%ff", keys: "user:%FF"},
		{name: "a query parameter", template: "q:{query.q}", target: "/users/42?q=x+y", keys: "q:x%20y"},
		{name: "several, by [*]", template: "q:{query.q[*]}", target: "/users/42?q=b&q=a&q=b", keys: "q:a|q:b"},
		{name: "another spelling of a number", template: "q:{query.q|int}", target: "/users/42?q=%2B5.0", keys: "q:5"},
		{name: "a number that is too large", template: "q:{query.q|int}", target: "/users/42?q=1e400", detail: "{query.q|int}: value is not an integer"},
		{name: "a name in another form and case", template: "q:{query.q|nfc|lower}", target: "/users/42?q=CAFE%CC%81", keys: "q:café"},
		{name: "a query parameter missing", template: "q:{query.q}", detail: "{query.q}: value is missing or empty"},
		{name: "a query parameter empty", template: "q:{query.q}", target: "/users/42?q=", detail: "{query.q}"},
		{name: "a query parameter twice", template: "q:{query.q}", target: "/users/42?q=1&q=1", detail: "more than one value"},
		{name: "a header", template: "t:{header.x-tenant}", header: "acme", keys: "t:acme"},
		{name: "a header in two lines", template: "t:{header.x-tenant}", header: "a|b", detail: "more than one value"},
		{name: "a long header", template: "t:{header.x-tenant}", header: strings.Repeat("x", 100_000), detail: "longer than"},
		{name: "a form field", template: "f:{form.name}", body: "name=Ada&x=1", as: asForm, keys: "f:Ada"},
		{name: "a form field in body and query", template: "f:{form.name}", target: "/users/42?name=Ada", body: "name=Eve", as: asForm, detail: "more than one value"},
		{name: "a field of a multipart form", template: "f:{form.name}", body: form, as: formType, keys: "f:Ada"},
		{name: "a form that is none", template: "f:{form.name}", body: "name=%zz", as: asForm, detail: "not a form"},
		{name: "a JSON member", template: "u:{body.user.id}", body: `{"user":{"id":"u1"}}`, as: asJSON, keys: "u:u1"},
		{name: "a large number is not rounded", template: "u:{body.id}", body: `{"id":9007199254740993}`, keys: "u:9007199254740993"},
		{name: "members of a list", template: "m:{body.m[*].id}", body: `{"m":[{"id":3},{"id":1},{"id":3}]}`, keys: "m:1|m:3"},
		{name: "too many members", template: "m:{body.m[*]}", body: many, detail: "more than 4096"},
		{name: "a megabyte for a value", template: "u:{body.id}", body: `{"id":"` + strings.Repeat("x", 1<<20-100) + `"}`, detail: "longer than"},
		{name: "NUL in JSON", template: "u:{body.id}", body: `{"id":"\u0000"}`, keys: "u:%00"},
		{name: "a JSON null", template: "u:{body.id}", body: `{"id":null}`, detail: "missing"},
		{name: "deep JSON", template: "u:{body.id}", body: strings.Repeat(`[`, 100_000), detail: "not JSON"},
		{name: "two spellings", template: "u:{body.user.id}", body: `{"user":{"id":1,"ID":2}}`, detail: "different case"},
		{name: "no body", template: "u:{body.id}", detail: "not JSON"},
		{name: "the body's digest", template: "b:{body|hash}", body: "hello", keys: "b:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.handle("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
				if data, err := io.ReadAll(r.Body); err != nil || string(data) != tt.body {
					t.Errorf("the handler reads %d bytes, %v; want %d", len(data), err, len(tt.body))
				}
				fmt.Fprint(w, keysOf(t, r))
			}, lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize(tt.template))
			if tt.target == "" {
				tt.target = "/users/42"
			}
			req := s.NewRequest("PUT", tt.target, tt.body)
			if tt.as != "" {
				req.Header.Set("Content-Type", tt.as)
			}
			if tt.header != "" {
				req.Header["X-Tenant"] = strings.Split(tt.header, "|")
			}
			a, err := s.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			if tt.detail == "" {
				if a.Status != 200 || a.Body != tt.keys {
					t.Errorf("answer = %d %s, want the keys %s", a.Status, a.Body, tt.keys)
				}
				return
			}
			if p := a.Problem(t, 400, "KEY_INVALID"); !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail = %q, want it to say %q", p.Detail, tt.detail)
			}
		})
	}
}

// TestOtherRouters: who does not set path values is helped with a few lines.
func TestOtherRouters(t *testing.T) {
	quiet(t)
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	router := func(pattern string, values ...string) middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Pattern = pattern
				for i := 0; i+1 < len(values); i += 2 {
					r.SetPathValue(values[i], values[i+1])
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	echoKey := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, keysOf(t, r)) })
	for _, tt := range []struct {
		name   string
		router middleware
		status int
	}{
		{"a value", router("", "id", "42"), 200},
		{"a value and a pattern of its own kind", router("/users/:id", "id", "42"), 200},
		{"an empty value, of a pattern that has it", router("/files/{id...}", "id", ""), 400},
		{"an empty value, of chi's pattern", router("/users/{id:[0-9]*}", "id", ""), 400},
		{"no such value", router("/users/{identity}", "identity", "42"), 500},
		{"nothing", router(""), 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ruletest.Serve(t, around(echoKey, tt.router, locks.Serialize("user:{path.id}")), false)
			if a := s.Do("GET", "/", ""); a.Status != tt.status || a.Status == 200 && a.Body != "user:42" {
				t.Errorf("answer = %d %s, want %d", a.Status, a.Body, tt.status)
			}
		})
	}
}

// TestKeyFunctions may read the body, which the handler reads again.
func TestKeyFunctions(t *testing.T) {
	s := newSite(t)
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	byForm := func(r *http.Request) string { return "form:" + r.FormValue("id") }
	all := func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		fmt.Fprint(w, keysOf(t, r), " ", string(data), " ", r.FormValue("id"), " ", err)
	}
	s.handle("POST /serialize", all, locks.SerializeBy(byForm))
	s.handle("POST /once", all, locks.OnceBy(byForm))
	for _, path := range []string{"/serialize", "/once"} {
		if a := s.Do("POST", path, "id=7", "Content-Type", asForm); a.Body != "form:7 id=7 7 <nil>" {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

// TestAFrameworkBehindAMux is an http.Handler as a whole, which routes by
// itself.
func TestAFrameworkBehindAMux(t *testing.T) {
	framework := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, found := core.LeaseFrom(r.Context())
		if !found {
			fmt.Fprint(w, r.URL.Path, " without a lock")
			return
		}
		fmt.Fprint(w, r.URL.Path, " with ", lease.Key())
	})
	s := newSite(t)
	s.Handle("PUT /users/{id}/status", lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize("user:{path.id}")(framework))
	s.Handle("/", framework)
	for target, want := range map[string]string{"/users/42/status": "/users/42/status with user:42", "/users/42": "/users/42 without a lock"} {
		if a := s.Do("PUT", target, ""); a.Body != want {
			t.Errorf("answer = %q, want %q", a.Body, want)
		}
	}
}

// TestABodyThatBreaksOff, and one that an earlier middleware limits.
func TestABodyThatBreaksOff(t *testing.T) {
	seen := make(chan error, 1)
	rule, err := lockhttp.SerializeConfig{
		Engine: ruletest.NewEngine(t, ruletest.NewStore()), Template: "b:{body|hash}",
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			lockhttp.DefaultErrorHandler(w, r, err)
			seen <- err
		},
	}.ToMiddleware()
	if err != nil {
		t.Fatal(err)
	}
	limit := func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 10) }
	s := newSite(t)
	s.handle("POST /", ok, limit, rule)
	s.Do("POST", "/", strings.Repeat("x", 20)).Problem(t, 413, "BODY_TOO_LARGE")
	ruletest.Receive(t, "the error", seen)

	body, client := io.Pipe()
	go func() {
		fmt.Fprint(client, "half")
		client.CloseWithError(io.ErrClosedPipe)
	}()
	req := s.NewRequest("POST", "/", "-")
	req.Body, req.ContentLength = body, 8
	if _, err := s.Send(req); err == nil {
		t.Error("the client got an answer to half a request")
	}
	refused := ruletest.Receive(t, "the error", seen)
	if p := lockhttp.ProblemOf(refused); p.Status != 400 || p.Reason != lockhttp.ReasonKeyInvalid {
		t.Errorf("problem = %+v of %v, want 400", p, refused)
	}
}
