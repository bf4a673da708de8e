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

// RuleOf describes the rule that a middleware of this package's applies to
// requests with a method, "" for any. ok is false for other middleware, which
// is not called, and for an idempotency rule that passes the method by. It is
// for routers that can tell the middleware of their routes, as chi.Walk does;
// [Watch] is for those that can't.
func RuleOf(m func(http.Handler) http.Handler, method string) (info coverage.Rule, ok bool) {
	g := ruleOf(m)
	if g == nil {
		return coverage.Rule{}, false
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
//	coverage.Log(ctx, logger, routes.Coverage())
//	if err := routes.Check(); err != nil {
//		log.Fatal(err)
//	}
type Routes struct {
	mux Mux
	mu  sync.Mutex
	all []coverage.Target
}

// Watch returns a place to add routes to mux. Those that are added elsewhere
// are not known to it.
func Watch(mux Mux) *Routes { return &Routes{mux: mux} }

// Handle adds a route whose handler is h inside of middleware, the first one
// outermost. A rule inside of somebody else's middleware is seen if that returns
// the rule's handler, and counts as none otherwise. Whether the pattern has what each rule's template
// wants is in [Routes.Check] and [Routes.Coverage].
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

// Check returns an error for each rule whose template wants a {path.name} that
// its route does not have: it would answer every request with 500. The error names
// the route, the rule and the placeholder, and joins all of them. Call it when all
// routes are added.
//
// It knows the patterns of http.ServeMux only, and nothing of a middleware that
// calls Request.SetPathValue. A rule with a Skipper is left out: it may skip those
// requests.
func (r *Routes) Check() error { return httprule.Check("lockhttp", r.Coverage()) }

// Coverage lists the routes, in the order in which they were added, with the
// rules of each. A rule that [Routes.Check] complains of has its Problem set.
func (r *Routes) Coverage() []coverage.Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
