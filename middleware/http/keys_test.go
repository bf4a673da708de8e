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

// TestOtherRouters: who does not set path values is helped with a few lines.
func TestOtherRouters(t *testing.T) {
	ruletest.LogTo(t, io.Discard)
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
	echoKey := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, ruletest.KeysOf(t, r)) })
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

// TestABodyThatBreaksOff, and one that an earlier middleware limits.
func TestABodyThatBreaksOff(t *testing.T) {
	seen := make(chan error, 1)
	rule := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Serialize("*", "b:{body|hash}")).WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err *reasons.Refusal) {
		lockhttp.DefaultErrorHandler(w, r, err)
		seen <- err
	}).Middleware
	limit := func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 10) }
	s := newSite(t)
	s.handle("POST /", ruletest.Done, limit, rule)
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
	p := lockhttp.ProblemOf(refused)
	check(t, p.Status == 400 && p.Reason == reasons.KeyInvalid, "problem = %+v of %v, want 400", p, refused)
}

const moveRoute = "PUT /groups/{group}/users/{user}"

// TestSeveralRulesAreOneSet: the keys of all rules of a route are taken together, each in its mode. Each
// rule skips, and checks, for itself.
func TestSeveralRulesAreOneSet(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	locks := ruletest.Locks(t, eng,
		lockhttp.Serialize(moveRoute, "user:{path.user}", core.WithMaxWait(5*time.Second)).
			SkipIf(func(r *http.Request) bool { return r.PathValue("user") == "bot" }).
			Precheck(func(r *http.Request) error {
				if r.PathValue("user") != "ann" {
					return errors.New("not you")
				}
				return nil
			}),
		lockhttp.Serialize(moveRoute, "group:{path.group}", core.WithShared()),
		lockhttp.SerializeBy(moveRoute, func(r *http.Request) string { return "a/" + r.FormValue("x") }, core.WithHierarchy()).
			SkipIf(func(r *http.Request) bool { return r.FormValue("x") == "" }))
	s := newSite(t)
	s.handle(moveRoute, func(w http.ResponseWriter, r *http.Request) {
		lease, _ := core.LeaseFrom(r.Context())
		for _, c := range lease.Claims() {
			fmt.Fprintf(w, "%v %s,", c.Mode, c.Key)
		}
	}, locks.Middleware)
	for path, want := range map[string]string{
		"/groups/7/users/ann":     "shared group:7,exclusive user:ann,",
		"/groups/7/users/bot":     "shared group:7,",
		"/groups/7/users/ann?x=1": "shared a,exclusive a/1,shared group:7,exclusive user:ann,",
	} {
		if a := s.Do("PUT", path, ""); a.Status != 200 || a.Body != want {
			t.Errorf("%s: %d %q, want %q", path, a.Status, a.Body, want)
		}
	}
	s.Do("PUT", "/groups/7/users/bob", "").Problem(t, 403, "FORBIDDEN")

	want := moveRoute + ": serialize user:{path.user} unless skipped, serialize shared group:{path.group}, serialize hierarchy func unless skipped"
	all := locks.Coverage(moveRoute)
	check(t, len(all) == 1 && all[0].String() == want, "Coverage() = %v, want %s", all, want)
	wantNil(t, locks.Check(moveRoute))
}

type caller struct{}

// TestSerializeKeys: all keys of a request are one set, and may come from its context. Whatever an error of the function
// matches, it is the server's.
func TestSerializeKeys(t *testing.T) {
	h := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.SerializeKeys("*", func(r *http.Request) ([]string, error) {
		if r.Method == "PUT" {
			return nil, fmt.Errorf("another service's lock: %w", core.ErrHeld)
		}
		return []string{"user:" + r.Context().Value(caller{}).(string), "group:1"}, nil
	}))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, ruletest.KeysOf(t, r)) }))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(context.WithValue(t.Context(), caller{}, "ann"), "POST", "/", nil))
	held := rec.Body.String()
	check(t, held == "group:1|user:ann", "held %s", held)
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("PUT", "/", nil))
	check(t, rec.Code == 500, "the answer to an error: %d", rec.Code)
}
