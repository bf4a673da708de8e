package lockecho_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
)

// TestSuite runs what this package does as lockhttp does it.
func TestSuite(t *testing.T) { ruletest.Run(t, face) }

func face(t testing.TB, r ruletest.Route) *ruletest.Site {
	t.Helper()
	guard := rule(t, r.Engine, r.Rule())
	rules := []echo.MiddlewareFunc{guard}
	if r.Outer != nil {
		rules = []echo.MiddlewareFunc{echo.WrapMiddleware(r.Outer), guard}
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
