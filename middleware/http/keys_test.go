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
	"github.com/keyturn/keyturn/middleware/reasons"
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

// TestOtherRouters: who does not set path values is helped with a few lines.
func TestOtherRouters(t *testing.T) {
	quiet(t)
	eng := ruletest.NewEngine(t, ruletest.NewStore())
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
			s := ruletest.Serve(t, around(echoKey, tt.router, ruletest.Middleware(t, eng, lockhttp.Serialize("*", "user:{path.id}"))), false)
			if a := s.Do("GET", "/", ""); a.Status != tt.status || a.Status == 200 && a.Body != "user:42" {
				t.Errorf("answer = %d %s, want %d", a.Status, a.Body, tt.status)
			}
		})
	}
}

// TestKeyFunctions may read the body, which the handler reads again.
func TestKeyFunctions(t *testing.T) {
	s := newSite(t)
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	byForm := func(r *http.Request) string { return "form:" + r.FormValue("id") }
	all := func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		fmt.Fprint(w, keysOf(t, r), " ", string(data), " ", r.FormValue("id"), " ", err)
	}
	s.handle("POST /serialize", all, ruletest.Middleware(t, eng, lockhttp.SerializeBy("*", byForm)))
	s.handle("POST /once", all, ruletest.Middleware(t, eng, lockhttp.OnceBy("*", byForm)))
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
	s.Handle("PUT /users/{id}/status", ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "user:{path.id}"))(framework))
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
	rule := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "b:{body|hash}")).WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err *reasons.Refusal) {
		lockhttp.DefaultErrorHandler(w, r, err)
		seen <- err
	}).Middleware
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
	if p := lockhttp.ProblemOf(refused); p.Status != 400 || p.Reason != reasons.KeyInvalid {
		t.Errorf("problem = %+v of %v, want 400", p, refused)
	}
}
