package lockhttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/core/coverage"
)

// Coverage lists the given routes, in order, each with the rules that cover it or without one. Log the
// list at start with coverage.Log. In a test, coverage.Uncovered fails if somebody adds a route and
// forgets its rule. A rule that [Locks.Check] reports has its Problem set.
//
// Without routes it lists the rules themselves, each under its route, in the order of New.
func (l *Locks) Coverage(routes ...string) []coverage.Target {
	if len(routes) == 0 {
		for _, g := range l.all {
			if !slices.Contains(routes, g.route) {
				routes = append(routes, g.route)
			}
		}
	}
	all := make([]coverage.Target, len(routes))
	for i, route := range routes {
		all[i].Name = route
		for _, g := range l.all {
			if info, covers := g.on(route); covers {
				all[i].Rules = append(all[i].Rules, info)
			}
		}
	}
	return all
}

// on describes the rule on a route, and reports whether it covers it, or some of its methods.
func (g *guard) on(route string) (info coverage.Rule, covers bool) {
	method, path := split(route)
	if path != g.path && g.path != everything || method != "" && !g.covers(method) {
		return info, false
	}
	if info, covers = g.rule.Covers(method); !covers {
		return info, false
	}
	info.Partial = info.Partial || g.skip != nil || method == "" && g.method != ""
	if g.skip == nil && path != everything {
		info.Problem = g.rule.Problem(path)
	}
	return info, true
}

// Check returns an error for each rule that covers none of the given routes: its route may be misspelt.
// So it does for each rule whose template has a {path.name} that its route does not have: such a rule
// answers every request with 500. The error joins all of them.
//
// It does not know about middleware that calls Request.SetPathValue. It leaves out the templates of a
// rule with [Rule.SkipIf], which may skip those requests.
func (l *Locks) Check(routes ...string) error {
	var errs []error
	for _, g := range l.all {
		if !slices.ContainsFunc(routes, func(route string) bool { _, covers := g.on(route); return covers }) {
			errs = append(errs, fmt.Errorf("rule for %q: there is no such route among %q", g.route, routes))
		}
	}
	for _, c := range l.Coverage(routes...) {
		for _, r := range c.Rules {
			if r.Problem != "" {
				errs = append(errs, fmt.Errorf("route %q: rule %q: %s", c.Name, r.Key, r.Problem))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lockhttp: %w", err)
	}
	return nil
}

// Mux is a router that routes are added to: *http.ServeMux, or chi's.
type Mux interface {
	Handle(pattern string, h http.Handler)
}

// Routes adds routes to a mux, each under its rules, and remembers them, because a mux cannot list its
// routes. It is safe for concurrent use. Make one with [Locks.Routes].
//
//	routes := locks.Routes(mux)
//	routes.HandleFunc("PUT /users/{id}/status", setStatus)
//	routes.HandleFunc("GET /users/{id}", getUser)
//	if err := routes.Check(); err != nil {
//		log.Fatal(err)
//	}
type Routes struct {
	locks *Locks
	mux   Mux
	mu    sync.Mutex
	all   []string
}

// Routes returns Routes that add routes to mux.
func (l *Locks) Routes(mux Mux) *Routes { return &Routes{locks: l, mux: mux} }

// Handle adds a route. Its rules are around h, and middleware, the first one outermost, is around the
// rules: who may queue for a key is known before.
func (r *Routes) Handle(pattern string, h http.Handler, middleware ...func(http.Handler) http.Handler) {
	h = r.locks.Middleware(h)
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	r.mux.Handle(pattern, h)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, pattern)
}

// HandleFunc is Handle for a function.
func (r *Routes) HandleFunc(pattern string, h http.HandlerFunc, middleware ...func(http.Handler) http.Handler) {
	r.Handle(pattern, h, middleware...)
}

// Check is [Locks.Check] for the routes that were added. Call it when all are.
func (r *Routes) Check() error { return r.locks.Check(r.list()...) }

// Coverage is [Locks.Coverage] for the routes that were added, in that order.
func (r *Routes) Coverage() []coverage.Target { return r.locks.Coverage(r.list()...) }

func (r *Routes) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
