package lockhttp_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
)

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
	var with []func(*http.Server)
	if r.Server != nil {
		with = append(with, r.Server)
	}
	s := ruletest.Serve(t, mux, r.HTTP2, with...)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(s.Log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return s
}
