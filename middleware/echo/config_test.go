package lockecho_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestConstructionRefuses(t *testing.T) {
	eng := ruletest.NewEngine(t, memstore.New())
	plain := ruletest.NewEngine(t, bareStore{memstore.New()})
	byID := func(c echo.Context) string { return c.Param("id") }
	serialize := func(template string, opts ...core.CallOption) func() (echo.MiddlewareFunc, error) {
		return lockecho.SerializeConfig{Engine: eng, Template: template, Options: opts}.ToMiddleware
	}
	tests := []struct {
		name string
		make func() (echo.MiddlewareFunc, error)
		want []string // all of them in one error
		is   error
	}{
		{name: "no engine", make: lockecho.SerializeConfig{Template: "a"}.ToMiddleware, want: []string{"want an engine"}},
		{name: "no key", make: lockecho.SerializeConfig{Engine: eng}.ToMiddleware, want: []string{"neither a template nor a key function: want one of them"}},
		{name: "two keys", make: lockecho.SerializeConfig{Engine: eng, Template: "a", Key: byID}.ToMiddleware, want: []string{"both a template and a key function"}},
		{name: "a template that does not parse", make: serialize("user:{path.id"), want: []string{`"user:{path.id"`, "byte 13"}},
		{name: "an unknown source", make: serialize("user:{cookie.id}"), want: []string{"{cookie.id}", "no such source"}},
		{name: "a source alone", make: serialize("user:{path}"), want: []string{"a name is missing: want path.<name>"}},
		{name: "every query parameter", make: serialize("user:{query[*]}"), want: []string{"a name is missing: want query.<name>"}},
		{name: "elements of a path parameter", make: serialize("user:{path.id[*]}"), want: []string{"path has a single value"}},
		{name: "elements inside a header", make: serialize("user:{header.x[*].id}"), want: []string{"[*] must be at the end"}},
		{name: "every unknown source is named", make: serialize("{cookie.a}:{session.b}"), want: []string{"{cookie.a}", "{session.b}"}},
		{name: "an option out of range", make: serialize("a", core.WithTTL(0)), want: []string{"WithTTL"}, is: core.ErrInvalidOption},
		{name: "a nil option", make: serialize("a", nil), want: []string{"not nil"}, is: core.ErrInvalidOption},
		{name: "a store that takes one claim at a time", make: lockecho.SerializeConfig{Engine: plain, Template: "m:{body.m[*].id}"}.ToMiddleware, want: []string{"several claims"}, is: errors.ErrUnsupported},
		{name: "a body for the handler that the key comes from", make: lockecho.SerializeConfig{Engine: eng, Template: "{body.id}", StreamBody: true}.ToMiddleware, want: []string{"StreamBody(true)"}, is: core.ErrInvalidOption},
		{name: "a store without records", make: lockecho.OnceConfig{Engine: plain, Template: "a"}.ToMiddleware, want: []string{"records"}, is: errors.ErrUnsupported},
		{name: "Once for several keys", make: lockecho.OnceConfig{Engine: eng, Template: "m:{query.id[*]}"}.ToMiddleware, want: []string{"Once needs exactly one"}},
		{name: "a negative body limit", make: lockecho.SerializeConfig{Engine: eng, Template: "a", BodyLimit: -1}.ToMiddleware, want: []string{"BodyLimit(-1)"}, is: core.ErrInvalidOption},
		{name: "a negative result limit", make: lockecho.OnceConfig{Engine: eng, Template: "a", ResultLimit: -1}.ToMiddleware, want: []string{"ResultLimit(-1)"}, is: core.ErrInvalidOption},
		{name: "a header that can't be", make: lockecho.OnceConfig{Engine: eng, Template: "a", Headers: []string{"X-A", "X B", ""}}.ToMiddleware, want: []string{`"X B"`, `""`}},
		{name: "a header of the connection", make: lockecho.OnceConfig{Engine: eng, Template: "a", Headers: []string{"transfer-encoding", "content-length"}}.ToMiddleware, want: []string{"Transfer-Encoding", "Content-Length"}},
		{name: "Idempotency without a caller", make: lockecho.IdempotencyConfig{Engine: eng}.ToMiddleware, want: []string{"identifies the caller"}},
		{
			name: "all at once",
			make: lockecho.OnceConfig{Template: "{cookie.a}", BodyLimit: -1, ResultLimit: -1, Headers: []string{"a b"}, Options: []core.CallOption{core.WithMaxWait(-1)}}.ToMiddleware,
			want: []string{"want an engine", "{cookie.a}", "BodyLimit", "ResultLimit", `"a b"`, "WithMaxWait"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tt.make()
			if err == nil || m != nil {
				t.Fatalf("ToMiddleware() = %v, want an error and nothing else", err)
			}
			for _, want := range append(tt.want, "lockecho: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to say %q", err, want)
				}
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error = %v, want one that is %v", err, tt.is)
			}
		})
	}
}

// bareStore has neither a ledger nor sets.
type bareStore struct{ driver.Store }

func (bareStore) Describe() driver.Description { return driver.Description{} }

func TestShortFormsPanicWhereTheOthersReturnAnError(t *testing.T) {
	locks := lockecho.New(ruletest.NewEngine(t, memstore.New()))
	for name, make := range map[string]func() echo.MiddlewareFunc{
		"Serialize":           func() echo.MiddlewareFunc { return locks.Serialize("{cookie.a}") },
		"SerializeBy":         func() echo.MiddlewareFunc { return locks.SerializeBy(nil) },
		"Once":                func() echo.MiddlewareFunc { return locks.Once("", core.WithRetention(0)) },
		"OnceBy":              func() echo.MiddlewareFunc { return locks.OnceBy(nil) },
		"no engine":           func() echo.MiddlewareFunc { return lockecho.New(nil).Serialize("a") },
		"Idempotency":         func() echo.MiddlewareFunc { return locks.Idempotency(nil) },
		"SerializeWithConfig": func() echo.MiddlewareFunc { return lockecho.SerializeWithConfig(lockecho.SerializeConfig{}) },
		"OnceWithConfig":      func() echo.MiddlewareFunc { return lockecho.OnceWithConfig(lockecho.OnceConfig{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, ok := recover().(error); !ok {
					t.Error("no panic with an error")
				}
			}()
			make()
		})
	}
}

func TestSkipper(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	lease := ruletest.MustAcquire(t, eng, "user:42")
	defer ruletest.MustRelease(t, lease)
	skip := func(c echo.Context) bool { return c.QueryParam("skip") != "" }
	s := newSite(t)
	s.GET("/s/:id", ok, lockecho.SerializeWithConfig(lockecho.SerializeConfig{
		Engine: eng, Template: "user:{path.id}", Skipper: skip, Options: []core.CallOption{core.WithFailFast()},
	}))
	s.GET("/o/:id", ok, lockecho.OnceWithConfig(lockecho.OnceConfig{
		Engine: eng, Template: "user:{path.id}", Skipper: skip, Options: []core.CallOption{core.WithFailFast()},
	}))
	for _, path := range []string{"/s/42", "/o/42"} {
		if a := s.Do("GET", path+"?skip=1", ""); a.Status != 200 {
			t.Errorf("%s skipped: %+v", path, a)
		}
		if a := s.Do("GET", path, ""); a.Status != 409 {
			t.Errorf("%s not skipped: %+v", path, a)
		}
	}
}

// ruleNames collects what observers are told of.
type ruleNames struct {
	names chan string
}

func (r ruleNames) hooks() observe.Hooks {
	return observe.Hooks{HoldEnd: r.HoldEnd}
}

func (r ruleNames) HoldEnd(_ context.Context, lease observe.Lease, _ error) { r.names <- lease.Rule() }

func TestRulesAreNamedByTheirTemplate(t *testing.T) {
	names := ruleNames{names: make(chan string, 1)}
	eng := ruletest.NewEngine(t, ruletest.NewStore(), core.WithHooks(names.hooks()))
	locks := lockecho.New(eng)
	s := newSite(t)
	byPath := func(c echo.Context) string { return c.Path() }
	s.GET("/a/:id", ok, locks.Serialize("user:{path.id}"))
	s.GET("/b/:id", ok, locks.Once("once:{path.id}"))
	s.GET("/c/:id", ok, locks.SerializeBy(byPath))
	s.GET("/d/:id", ok, locks.OnceBy(byPath))
	s.GET("/e/:id", ok, locks.SerializeBy(byPath, core.WithRule("mine")))
	for path, want := range map[string]string{
		"/a/1": "user:{path.id}", "/b/1": "once:{path.id}", "/c/1": "lockecho.Serialize", "/d/1": "lockecho.Once", "/e/1": "mine",
	} {
		s.Do("GET", path, "")
		if got := ruletest.Receive(t, "a hold", names.names); got != want {
			t.Errorf("%s: rule = %q, want %q", path, got, want)
		}
	}
}

func TestPoliciesReachTheEngine(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	s := newSite(t)
	ttl := make(chan time.Duration, 1)
	s.GET("/:id", func(c echo.Context) error {
		lease, _ := core.LeaseFrom(c.Request().Context())
		ttl <- lease.TTL()
		return nil
	}, lockecho.New(eng).Serialize("a:{path.id}", core.WithTTL(7*time.Second)))
	s.Do("GET", "/1", "")
	if got := ruletest.Receive(t, "the TTL", ttl); got != 7*time.Second {
		t.Errorf("TTL = %v, want the rule's", got)
	}
}
