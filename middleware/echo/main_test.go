package lockecho_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, check, wantIs = checktest.Must, checktest.That, checktest.WantIs

// site is an Echo behind a real HTTP server.
type site struct {
	*echo.Echo
	*ruletest.Site
	t testing.TB
}

// newSite starts a server. Routes may be added until the first request.
func newSite(t testing.TB) *site {
	t.Helper()
	e := echo.New()
	s := &site{Echo: e, Site: ruletest.Serve(t, e, false), t: t}
	e.Logger.SetOutput(s.Log)
	return s
}

// rule is a middleware of one rule for every route.
func rule(t testing.TB, eng *core.Engine, rules ...lockhttp.Rule) echo.MiddlewareFunc {
	t.Helper()
	locks, err := lockecho.New(eng, rules...)
	must(t, err)
	return locks.Middleware
}

// useHTTP2 starts the server again, with TLS and HTTP/2.
func (s *site) useHTTP2() {
	s.Site.Close()
	s.Site = ruletest.Serve(s.t, s.Echo, true)
}

// seeErrors has the errors that pass outside of the rules of s.
func (s *site) seeErrors() <-chan error {
	seen := make(chan error, 1)
	s.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			seen <- err
			return err
		}
	})
	return seen
}

// TestSuite runs what this package does as lockhttp does it.
func TestSuite(t *testing.T) { ruletest.Run(t, face) }

// TestNoWayAround: a parameter at the end takes more levels.
func TestNoWayAround(t *testing.T) {
	ruletest.NoWayAround(t, "/users/:id", func(eng *core.Engine, h http.Handler, rules ...lockhttp.Rule) http.Handler {
		e := echo.New()
		e.PUT("/users/:id", echo.WrapHandler(h), rule(t, eng, rules...))
		return e
	})
}

func face(t testing.TB, r ruletest.Route) *ruletest.Site {
	t.Helper()
	guard := rule(t, r.Engine, r.Rule())
	rules := []echo.MiddlewareFunc{guard}
	if r.Outer != nil {
		rules = []echo.MiddlewareFunc{echo.WrapMiddleware(r.Outer), guard}
	}
	e := echo.New()
	e.Any(strings.NewReplacer("{", ":", "}", "").Replace(r.Pattern), echo.WrapHandler(r.Handler), rules...)
	s := r.Serve(t, e)
	e.Logger.SetOutput(s.Log)
	return s
}
