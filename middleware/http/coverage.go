package lockhttp

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule"
)

// wrapCode is the code pointer of all our middleware. reflect does not promise that other
// functions have another one, so it only saves a call to most of them; see ruleOf.
var wrapCode = reflect.ValueOf((*guard)(nil).wrap).Pointer()

// ruleOf returns the rule in m, or nil. The type of the handler that m makes proves that m is
// ours.
func ruleOf(m func(http.Handler) http.Handler) *guard {
	if m == nil || reflect.ValueOf(m).Pointer() != wrapCode {
		return nil
	}
	if h, ours := m(http.NotFoundHandler()).(*handler); ours {
		return h.guard
	}
	return nil
}

// rulesBetween returns the rules in the handler that a middleware made of inner, the outermost
// first.
func rulesBetween(outer, inner http.Handler) (rules []*guard) {
	last, _ := inner.(*handler)
	for h, ours := outer.(*handler); ours && h != last; h, ours = h.next.(*handler) {
		rules = append(rules, h.guard)
	}
	return rules
}

// RuleOf describes the rule that a middleware of this package applies to requests with that
// method; "": any method. ok is false for other middleware, which is not called, and for an
// idempotency rule that does not apply to the method. It is for routers that can list the
// middleware of their routes, as chi.Walk does. [Watch] is for other routers.
func RuleOf(m func(http.Handler) http.Handler, method string) (info coverage.Rule, ok bool) {
	g := ruleOf(m)
	if g == nil {
		return coverage.Rule{}, false
	}
	return g.rule.Covers(method)
}

// Mux is a router that routes are added to: *http.ServeMux, or chi's.
type Mux interface {
	Handle(pattern string, h http.Handler)
}

// Routes adds routes to a mux and remembers the rules of each, because a mux cannot list its
// routes. It is safe for concurrent use. Make one with [Watch].
//
//	routes := lockhttp.Watch(mux)
//	routes.Handle("PUT /users/{id}/status", setStatus, locks.Serialize("user:status:{path.id}"))
//	routes.Handle("GET /users/{id}", getUser)
//	coverage.Log(ctx, logger, routes.Coverage())
//	if err := routes.Check(); err != nil {
//		log.Fatal(err)
//	}
type Routes struct {
	mux Mux
	mu  sync.Mutex
	all []coverage.Target
}

// Watch returns Routes that add routes to mux. It does not know routes that are added in other
// ways.
func Watch(mux Mux) *Routes { return &Routes{mux: mux} }

// Handle adds a route whose handler is h inside of middleware, the first one outermost. A rule
// inside of other middleware is seen only if that middleware returns the rule's handler.
// [Routes.Check] and [Routes.Coverage] say whether the pattern has everything that the rules'
// templates need.
func (r *Routes) Handle(pattern string, h http.Handler, middleware ...func(http.Handler) http.Handler) {
	method, _, found := strings.Cut(pattern, " ")
	if !found {
		method = ""
	}
	var rules []*guard
	for _, m := range slices.Backward(middleware) {
		inner := h
		h = m(inner)
		rules = append(rulesBetween(h, inner), rules...)
	}
	target := coverage.Target{Name: pattern}
	for _, g := range rules {
		if info, covers := g.rule.Covers(method); covers {
			info.Problem = r.problem(pattern, g)
			target.Rules = append(target.Rules, info)
		}
	}
	r.mux.Handle(pattern, h)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, target)
}

// problem says what a rule's template needs that the pattern does not have. Only with
// http.ServeMux is it certain that a route has no other parameters than those of its pattern:
// another router may be mounted in one that has more.
func (r *Routes) problem(pattern string, g *guard) string {
	if _, known := r.mux.(*http.ServeMux); !known || !g.always {
		return ""
	}
	return g.rule.Problem(wildcards(pattern))
}

// wildcards returns the names in a pattern of http.ServeMux.
func wildcards(pattern string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(pattern, "{")
		if !found {
			return names
		}
		name, after, _ := strings.Cut(rest, "}")
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			names = append(names, name)
		}
		pattern = after
	}
}

// HandleFunc is Handle for a function.
func (r *Routes) HandleFunc(pattern string, h http.HandlerFunc, middleware ...func(http.Handler) http.Handler) {
	r.Handle(pattern, h, middleware...)
}

// Check returns an error for each rule whose template has a {path.name} that its route does not
// have: such a rule answers every request with 500. The error joins all of them, each with the
// route, the rule and the placeholder. Call it when all routes are added.
//
// It knows only the patterns of http.ServeMux, and does not know about middleware that calls
// Request.SetPathValue. It leaves out a rule with a Skipper, which may skip those requests.
func (r *Routes) Check() error { return httprule.Check("lockhttp", r.Coverage()) }

// Coverage lists the routes, in the order in which they were added, with the rules of each. A
// rule that [Routes.Check] reports has its Problem set.
func (r *Routes) Coverage() []coverage.Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
