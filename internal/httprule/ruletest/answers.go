package ruletest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
)

// Waiting makes a caller wait for key, which must be held.
func Waiting(t testing.TB, eng *core.Engine, st *Store, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() {
		_, err := eng.Acquire(ctx, key, core.WithMaxWait(core.Forever))
		gone <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := Receive(t, "the waiter", gone); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter got %v", err)
		}
	})
	Until(t, "a waiter in line", func() bool { return st.Asked() == 1 })
}

// CheckRetryAfter checks whether the header is there.
func (a Answer) CheckRetryAfter(t testing.TB, want bool) {
	t.Helper()
	value := a.Header.Get("Retry-After")
	seconds, err := strconv.Atoi(value)
	if want && (err != nil || seconds < 1) {
		t.Errorf("Retry-After = %q, want at least a second", value)
	}
	if !want && value != "" {
		t.Errorf("Retry-After = %q, want none", value)
	}
}

// CheckDiscretion checks that the answer says nothing about keys, holders, hosts and backends.
func (a Answer) CheckDiscretion(t testing.TB, key string) {
	t.Helper()
	host, _ := os.Hostname()
	said := a.Body
	for _, values := range a.Header {
		said += "\n" + strings.Join(values, "\n")
	}
	for _, secret := range []string{key, "user:status", host + "/", strconv.Itoa(os.Getpid()) + "/", "10.0.0.7", "keyturn", "lockecho", "lockhttp"} {
		if strings.Contains(said, secret) {
			t.Errorf("the answer says %q: %s", secret, said)
		}
	}
}

// scene is what a row of Answers may prepare.
type scene struct {
	*testing.T
	engine *core.Engine
	store  *Store
	site   *Site
}

const theKey = "user:status:42"

func holding(s scene) {
	lease := MustAcquire(s, s.engine, theKey)
	s.Cleanup(func() { MustRelease(s, lease) })
}

func down(acquire, complete error) func(scene) {
	return func(s scene) { s.store.BreakDown(acquire, complete) }
}

// RequestID is an outer middleware that sets a header.
func RequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		next.ServeHTTP(w, r)
	})
}

// Answers tests the table in the packages' documentation.
func Answers(t *testing.T, face Face) {
	const byPath = "user:status:{path.id}"
	serialize := func(opts ...core.CallOption) Route { return Route{Template: byPath, Options: opts} }
	once := func(opts ...core.CallOption) Route { return Route{Template: byPath, Options: opts, Once: true} }
	losing := func(r Route) Route {
		r.Handler = untilLost
		return r
	}
	soon := core.WithMaxHold(20 * time.Millisecond)
	key := func(key string) func(*http.Request) string { return func(*http.Request) string { return key } }
	for _, tt := range []struct {
		name   string
		engine []core.EngineOption
		route  Route
		before func(scene)
		target string // default: /42
		body   string
		header []string
		status int
		reason string
		retry  bool
	}{
		{name: "held, and the rule says not to wait", route: serialize(core.WithFailFast()), before: holding, status: 409, reason: "LOCK_HELD", retry: true},
		{name: "waited too long", route: serialize(core.WithMaxWait(20 * time.Millisecond)), before: holding, status: 409, reason: "WAIT_TIMEOUT", retry: true},
		{
			name: "too many waiters", engine: []core.EngineOption{core.WithMaxWaiters(1)}, route: serialize(),
			before: func(s scene) { holding(s); Waiting(s, s.engine, s.store, theKey) },
			status: 429, reason: "TOO_MANY_WAITERS", retry: true,
		},
		{name: "Once: the first is still running", route: once(core.WithFailFast()), before: holding, status: 409, reason: "LOCK_HELD", retry: true},
		{name: "Once: the first is still running after the wait", route: once(core.WithMaxWait(20 * time.Millisecond)), before: holding, status: 409, reason: "WAIT_TIMEOUT", retry: true},
		{
			name: "Once: same key, other content", route: once(), body: "another",
			before: func(s scene) {
				if a := s.site.Do("PUT", "/42", "one"); a.Status != 200 {
					s.Fatalf("first request: %+v", a)
				}
			},
			status: 422, reason: "FINGERPRINT_MISMATCH",
		},
		{name: "key missing", route: Route{Template: "user:{query.id}"}, status: 400, reason: "KEY_INVALID"},
		{name: "key too long", route: Route{Template: "user:{query.id}"}, target: "/42?id=" + strings.Repeat("x", 600), status: 400, reason: "KEY_INVALID"},
		{name: "key function makes none", route: Route{Key: key("")}, status: 400, reason: "KEY_INVALID"},
		{name: "key function makes an invalid one", route: Route{Key: key("a{b}"), Once: true}, status: 400, reason: "KEY_INVALID"},
		{name: "body is not JSON", route: Route{Template: "user:{body.id}"}, body: `{"id":`, status: 400, reason: "KEY_INVALID"},
		{name: "body has the member twice", route: Route{Template: "user:{body.id}"}, body: `{"id":1,"ID":2}`, status: 400, reason: "KEY_INVALID"},
		{
			name: "body says that it is not JSON", route: Route{Template: "user:{body.id}"},
			body: `{"id":1,"x":"&id=2&"}`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, reason: "MEDIA_TYPE",
		},
		{name: "body over the limit", route: once(), body: strings.Repeat("x", 1<<20+1), status: 413, reason: "BODY_TOO_LARGE"},
		{name: "store down", route: serialize(), before: down(ErrDown, nil), status: 503, reason: "STORE_UNAVAILABLE", retry: true},
		{name: "Once: store down", route: once(), before: down(ErrDown, nil), status: 503, reason: "STORE_UNAVAILABLE", retry: true},
		{
			name: "Once: record uncertain", engine: []core.EngineOption{core.WithReleaseTimeout(30 * time.Millisecond)},
			route: once(), before: down(nil, ErrDown), status: 503, reason: "OUTCOME_UNKNOWN", retry: true,
		},
		{
			name: "engine closed", route: serialize(),
			before: func(s scene) {
				if err := s.engine.Close(context.Background()); err != nil {
					s.Fatal(err)
				}
			},
			status: 503, reason: "STOPPING", retry: true,
		},
		{name: "lease lost while running", route: losing(serialize(soon)), status: 409, reason: "LEASE_LOST"},
		{name: "Once: lease lost while running", route: losing(once(soon)), status: 409, reason: "LEASE_LOST"},
		{name: "the route has no such parameter", route: Route{Template: "user:{path.user_id}"}, status: 500, reason: "INTERNAL"},
		{
			name: "a record that is no response", route: once(core.WithoutFingerprint()),
			before: func(s scene) {
				if _, err := s.engine.Once(context.Background(), theKey, func(context.Context) ([]byte, error) { return []byte("else"), nil }); err != nil {
					s.Fatal(err)
				}
			},
			status: 500, reason: "INTERNAL",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := NewStore()
			tt.route.Engine, tt.route.Outer = NewEngine(t, st, tt.engine...), RequestID
			s := face(t, tt.route)
			if tt.before != nil {
				tt.before(scene{t, tt.route.Engine, st, s})
			}
			if tt.target == "" {
				tt.target = "/42"
			}
			a := s.Do("PUT", tt.target, tt.body, tt.header...)
			a.Problem(t, tt.status, tt.reason)
			a.CheckRetryAfter(t, tt.retry)
			a.CheckDiscretion(t, theKey)
			if a.Header.Get("X-Request-Id") == "" {
				t.Error("the request id of an outer middleware is lost")
			}
		})
	}
}

// CheckJoined checks that err joins one error for each of want, in that order, and that each
// error has all texts of its list.
func CheckJoined(t testing.TB, err error, want ...[]string) {
	t.Helper()
	joined, _ := err.(interface{ Unwrap() []error })
	if joined == nil || len(joined.Unwrap()) != len(want) {
		t.Fatalf("error = %v, want %d joined", err, len(want))
	}
	for i, err := range joined.Unwrap() {
		for _, part := range want[i] {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}
}
