package lockhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// user is who calls, as an authenticating middleware would know.
func user(r *http.Request) string { return r.Header.Get("User") }

// payments is a service that says how often it has paid.
func payments(calls *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(201)
		fmt.Fprintf(w, "%d %s %s", calls.Add(1), user(r), body)
	}
}

// TestIdempotency: what a second request gets, after one that paid.
func TestIdempotency(t *testing.T) {
	const run, replay = "runs", "gets the first one's response"
	for _, tt := range []struct {
		name   string
		rule   lockhttp.Rule // default: for every route, and the caller in the header User
		method string        // default: POST
		target string        // default: /accounts/1/pay
		body   string        // default: ten
		header []string
		want   string
		reason string // instead of want
		status int
		detail string
	}{
		{name: "the same", want: replay},
		{name: "another key", header: []string{"Idempotency-Key", "k2"}, want: run},
		{name: "another caller with the same key", header: []string{"User", "eve", "Idempotency-Key", "k1"}, want: run},
		{name: "a caller and a key that read the same when put together", header: []string{"User", "adak", "Idempotency-Key", "1"}, want: run},
		{name: "another method", method: "PATCH", want: run},
		{name: "another route", target: "/accounts/1/refund", want: run},
		{name: "a renewed token", header: []string{"Authorization", "other"}, want: replay},
		{name: "another body", body: "20", status: 422, reason: "FINGERPRINT_MISMATCH"},

		{name: "another path of the same route", target: "/accounts/2/pay", status: 422, reason: "FINGERPRINT_MISMATCH"},

		{name: "no key", header: []string{"Idempotency-Key", "-none-"}, status: 400, reason: "KEY_INVALID", detail: "The header Idempotency-Key is missing."},
		{name: "no key, where it is optional", rule: lockhttp.Idempotency("*", user).Optional(), header: []string{"Idempotency-Key", "-none-"}, want: run},
		{name: "a key, where it is optional", rule: lockhttp.Idempotency("*", user).Optional(), want: replay},
		{name: "an empty key, where it is optional", rule: lockhttp.Idempotency("*", user).Optional(), header: []string{"Idempotency-Key", ""}, status: 400, reason: "KEY_INVALID", detail: "is empty"},
		{name: "nobody knows who calls", header: []string{"User", ""}, status: 400, reason: "KEY_INVALID", detail: "could not be identified"},
		{name: "another caller, where all are one", rule: lockhttp.Idempotency("*", lockhttp.AnyCaller), header: []string{"User", "eve"}, want: replay},
		{name: "a method that is idempotent by itself", method: "PUT", want: run},
		{name: "another header", rule: lockhttp.Idempotency("*", user).Header("X-Request-Key").Optional(), want: run},
		{name: "skipped", rule: lockhttp.Idempotency("*", user).SkipIf(func(*http.Request) bool { return true }), want: run},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if reflect.ValueOf(tt.rule).IsZero() {
				tt.rule = lockhttp.Idempotency("*", user)
			}
			rule := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), tt.rule)
			s := newSite(t)
			var calls atomic.Int64
			s.handle("/accounts/{id}/pay", payments(&calls), rule)
			s.handle("/accounts/{id}/refund", payments(&calls), rule)

			first := s.Do("POST", "/accounts/1/pay", "ten", "User", "ada", "Idempotency-Key", "k1")
			if first.Status != 201 || first.Replayed() || calls.Load() != 1 {
				t.Fatalf("first = %+v", first)
			}
			or := func(s, other string) string {
				if s == "" {
					return other
				}
				return s
			}
			req := s.NewRequest(or(tt.method, "POST"), or(tt.target, "/accounts/1/pay"), or(tt.body, "ten"), "User", "ada", "Idempotency-Key", "k1")
			for i := 0; i+1 < len(tt.header); i += 2 {
				req.Header.Set(tt.header[i], tt.header[i+1])
				if tt.header[i+1] == "-none-" {
					req.Header.Del(tt.header[i])
				}
			}
			a, err := s.Send(req)
			must(t, err)
			switch tt.want {
			case run:
				check(t, a.Status == 201 && !a.Replayed() && calls.Load() == 2, "answer = %+v after %d calls, want the handler's", a, calls.Load())
			case replay:
				check(t, a.Status == 201 && a.Body == first.Body && a.Replayed() && calls.Load() == 1, "answer = %+v after %d calls, want %+v again", a, calls.Load(), first)
			default:
				p := a.Problem(t, tt.status, tt.reason)
				check(t, strings.Contains(p.Detail, tt.detail) && calls.Load() == 1, "problem = %+v after %d calls", p, calls.Load())
				a.CheckDiscretion(t, "k1")
			}
		})
	}
}

// TestIdempotencyInFlight: a repeat is refused while the first runs.
func TestIdempotencyInFlight(t *testing.T) {
	s := newSite(t)
	running, goOn := make(chan struct{}), make(chan struct{})
	s.handle("POST /pay", func(w http.ResponseWriter, r *http.Request) {
		close(running)
		<-goOn
		w.WriteHeader(201)
		fmt.Fprint(w, "paid")
	}, ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", lockhttp.AnyCaller)))
	pay := func() ruletest.Answer { return s.Do("POST", "/pay", "", "Idempotency-Key", "k") }
	first := make(chan ruletest.Answer, 1)
	go func() { first <- pay() }()
	ruletest.Receive(t, "the handler", running)
	a := pay()
	a.Problem(t, 409, "LOCK_HELD")
	a.CheckRetryAfter(t, true)
	close(goOn)
	ruletest.Receive(t, "the first answer", first)
	if a := pay(); a.Body != "paid" || !a.Replayed() {
		t.Errorf("after it: %+v", a)
	}
}

// TestIdempotencyByPath: in front of a router the path stands for the route; and the routes of a router
// that is mounted twice are others in another place.
func TestIdempotencyByPath(t *testing.T) {
	var calls atomic.Int64
	guard := func(h http.Handler) http.Handler {
		return ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", user))(h)
	}
	front, api, mounted := http.NewServeMux(), http.NewServeMux(), http.NewServeMux()
	front.Handle("POST /{version}/pay", payments(&calls))
	api.Handle("POST /pay", guard(payments(&calls)))
	mounted.Handle("/v1/", http.StripPrefix("/v1", api))
	mounted.Handle("/v2/", http.StripPrefix("/v2", api))
	for name, h := range map[string]http.Handler{"in front": guard(front), "mounted": mounted} {
		calls.Store(0)
		s := ruletest.Serve(t, h, false)
		pay := func(version string) ruletest.Answer {
			return s.Do("POST", version+"/pay?x=1", "ten", "User", "ada", "Idempotency-Key", "k")
		}
		if a, b, c := pay("/v1"), pay("/v2"), pay("/v1"); calls.Load() != 2 || b.Replayed() || c.Body != a.Body || !c.Replayed() {
			t.Errorf("%s: answers = %+v, %+v, %+v after %d calls", name, a, b, c, calls.Load())
		}
	}
}

// TestIdempotencyOfASubRouter, which tells its own part of the pattern alone, as chi's do.
func TestIdempotencyOfASubRouter(t *testing.T) {
	var calls atomic.Int64
	rule := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", user))(payments(&calls))
	s := ruletest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = r.Header.Get("Pattern")
		rule.ServeHTTP(w, r)
	}), false)
	for i, tt := range []struct {
		name, pattern string
		one, other    string
		routes        int
	}{
		{"one route", "/{id}/cancel", "/payments/1/cancel", "/payments/2/cancel", 1},
		{"a slash at the end", "/payments/{id}", "/payments/1", "/payments/1/", 1},
		{"two sub-routers", "/{id}", "/payments/1", "/refunds/1", 2},
		{"below a parameter", "/refunds/{id}", "/users/1/refunds/1", "/users/2/refunds/1", 2},
		{"their roots", "/", "/payments", "/refunds", 2},
		{"a subtree", "/v1/{rest...}", "/v1/payments/1", "/v1/payments/2", 1},
		{"chi's subtree", "/v1/*", "/v1/payments/1", "/v1/refunds", 1},
		{"a name of one's own", "pay", "/payments/1", "/payments/2", 1},
		{"behind what shortened the path", "/v1/payments/{id}", "/1", "/2", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pay := func(path string) ruletest.Answer {
				return s.Do("POST", path, "ten", "User", "ada", "Idempotency-Key", fmt.Sprint("k", i), "Pattern", tt.pattern)
			}
			if a := pay(tt.one); a.Status != 201 {
				t.Fatalf("answer = %+v", a)
			}
			if a := pay(tt.one); !a.Replayed() {
				t.Errorf("repeat = %+v, want a replay", a)
			}
			if a := pay(tt.other); a.Status != map[int]int{1: 422, 2: 201}[tt.routes] {
				t.Errorf("another path = %d %s, want %d routes", a.Status, a.Body, tt.routes)
			}
		})
	}
}
