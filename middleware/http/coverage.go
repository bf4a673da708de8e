package lockhttp

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/keyturn/keyturn/core"
)

// wrapCode is the code of all our middleware.
var wrapCode = reflect.ValueOf((*guard)(nil).wrap).Pointer()

// ruleOf returns the rule in m, or nil. A middleware of somebody else's is not
// called: nobody knows what it does.
func ruleOf(m func(http.Handler) http.Handler) *guard {
	if m == nil || reflect.ValueOf(m).Pointer() != wrapCode {
		return nil
	}
	return m(nil).(*handler).guard
}

// RuleOf describes the rule that a middleware of this package's applies to
// requests with a method, "" for any. ok is false for other middleware, which
// is not called, and for an idempotency rule that passes the method by. It is
// for routers that can tell the middleware of their routes, as chi.Walk does;
// [Watch] is for those that can't.
func RuleOf(m func(http.Handler) http.Handler, method string) (info core.RuleInfo, ok bool) {
	g := ruleOf(m)
	if g == nil {
		return core.RuleInfo{}, false
	}
	return g.rule.Covers(method)
}

// Mux is what routes are added to: *http.ServeMux, or chi's.
type Mux interface {
	Handle(pattern string, h http.Handler)
}

// Routes adds routes to a mux and remembers the rules of each, as a mux can't
// list what it has. It is safe for concurrent use.
//
//	routes := lockhttp.Watch(mux)
//	routes.Handle("PUT /users/{id}/status", setStatus, locks.Serialize("user:status:{path.id}"))
//	routes.Handle("GET /users/{id}", getUser)
//	core.LogCoverage(ctx, logger, routes.Coverage())
type Routes struct {
	mux Mux
	mu  sync.Mutex
	all []core.Coverage
}

// Watch returns a place to add routes to mux. Those that are added elsewhere
// are not known to it.
func Watch(mux Mux) *Routes { return &Routes{mux: mux} }

// Handle adds a route whose handler is h inside of middleware, the first one
// outermost. Our rules are told from other middleware, and from rules inside of
// it, which count as none.
func (r *Routes) Handle(pattern string, h http.Handler, middleware ...func(http.Handler) http.Handler) {
	method, _, found := strings.Cut(pattern, " ")
	if !found {
		method = ""
	}
	target := core.Coverage{Target: pattern}
	for _, m := range middleware {
		if info, ok := RuleOf(m, method); ok {
			target.Rules = append(target.Rules, info)
		}
	}
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	r.mux.Handle(pattern, h)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, target)
}

// HandleFunc is Handle for a function.
func (r *Routes) HandleFunc(pattern string, h http.HandlerFunc, middleware ...func(http.Handler) http.Handler) {
	r.Handle(pattern, h, middleware...)
}

// Coverage lists the routes, in the order in which they were added, with the
// rules of each.
func (r *Routes) Coverage() []core.Coverage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
