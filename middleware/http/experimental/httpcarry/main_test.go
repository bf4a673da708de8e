package httpcarry_test

import (
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// handle adds a route with middleware around its handler, the first one outermost.
func (s *site) handle(pattern string, h http.HandlerFunc, around ...func(http.Handler) http.Handler) {
	wrapped := http.Handler(h)
	for i := len(around) - 1; i >= 0; i-- {
		wrapped = around[i](wrapped)
	}
	s.Handle(pattern, wrapped)
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func ok(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "done") }
