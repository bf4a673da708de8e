package lockecho_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

// TestSuite runs what this package does as lockhttp does it.
func TestSuite(t *testing.T) { ruletest.Run(t, face) }

func face(t testing.TB, r ruletest.Route) *ruletest.Site {
	t.Helper()
	var key func(echo.Context) string
	if r.Key != nil {
		key = func(c echo.Context) string { return r.Key(c.Request()) }
	}
	var precheck func(echo.Context) error
	if r.Precheck != nil {
		precheck = func(c echo.Context) error { return r.Precheck(c.Request()) }
	}
	var rule echo.MiddlewareFunc
	var err error
	if r.Once {
		rule, err = lockecho.OnceConfig{
			Engine: r.Engine, Template: r.Template, Key: key, Options: r.Options, BodyLimit: r.BodyLimit,
			ResultLimit: r.ResultLimit, Headers: r.Headers, Storable: r.Storable, Precheck: precheck,
		}.ToMiddleware()
	} else {
		rule, err = lockecho.SerializeConfig{
			Engine: r.Engine, Template: r.Template, Key: key, Options: r.Options, BodyLimit: r.BodyLimit, StreamBody: r.StreamBody,
		}.ToMiddleware()
	}
	if err != nil {
		t.Fatal(err)
	}
	rules := []echo.MiddlewareFunc{rule}
	if r.Outer != nil {
		rules = []echo.MiddlewareFunc{echo.WrapMiddleware(r.Outer), rule}
	}
	e := echo.New()
	e.Any(strings.NewReplacer("{", ":", "}", "").Replace(r.Pattern), echo.WrapHandler(r.Handler), rules...)
	var with []func(*http.Server)
	if r.Server != nil {
		with = append(with, r.Server)
	}
	s := ruletest.Serve(t, e, r.HTTP2, with...)
	e.Logger.SetOutput(s.Log)
	return s
}
