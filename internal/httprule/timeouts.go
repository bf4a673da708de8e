package httprule

import (
	"log/slog"
	"net/http"
	"sync/atomic"
)

// serverOf returns the server that a request came to, or nil.
func serverOf(req *http.Request) *http.Server {
	srv, _ := req.Context().Value(http.ServerContextKey).(*http.Server)
	return srv
}

// warned: the log has a warning about a server without timeouts.
var warned atomic.Bool

// lookAt warns, once per process, of a server without timeouts. Slow clients keep no lock
// there, but they keep connections and temporary files for as long as they like.
func (r *Rule) lookAt(req *http.Request) {
	if r.looked.Load() {
		return
	}
	r.looked.Store(true)
	srv := serverOf(req)
	if srv == nil || srv.ReadTimeout > 0 || srv.WriteTimeout > 0 || warned.Swap(true) {
		return
	}
	slog.WarnContext(req.Context(),
		"keyturn: a route with a rule is on a server without timeouts: set http.Server's ReadTimeout and WriteTimeout, because slow clients keep connections and temporary files",
		"rule", r.rule.Name, "route", r.route(req), "server", srv.Addr)
}
