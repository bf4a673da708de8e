package lockhttp_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, check, wantNil, wantIs = checktest.Must, checktest.That, checktest.WantNil, checktest.WantIs

type middleware = func(http.Handler) http.Handler

type site struct {
	*http.ServeMux
	*ruletest.Site
}

// newSite starts a server. Routes may be added until the first request.
func newSite(t testing.TB) *site {
	t.Helper()
	mux := http.NewServeMux()
	return &site{ServeMux: mux, Site: ruletest.Serve(t, mux, false)}
}

func (s *site) handle(pattern string, h http.HandlerFunc, rules ...middleware) {
	s.Handle(pattern, around(h, rules...))
}

func around(h http.Handler, rules ...middleware) http.Handler {
	for i := len(rules) - 1; i >= 0; i-- {
		h = rules[i](h)
	}
	return h
}

// TestSuite runs what this package does as lockecho does it.
func TestSuite(t *testing.T) { ruletest.Run(t, face) }

func face(t testing.TB, r ruletest.Route) *ruletest.Site {
	t.Helper()
	h := ruletest.Middleware(t, r.Engine, r.Rule())(r.Handler)
	if r.Outer != nil {
		h = r.Outer(h)
	}
	mux := http.NewServeMux()
	mux.Handle(r.Pattern, h)
	s := r.Serve(t, mux)
	ruletest.LogTo(t, s.Log)
	return s
}
