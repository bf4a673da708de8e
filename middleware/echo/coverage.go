package lockecho

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule"
)

// wrapCode is the code pointer of all our middleware. reflect does not promise that other
// functions have another one, so it only saves a call to most of them; see ruleOf.
var wrapCode = reflect.ValueOf((*guard)(nil).wrap).Pointer()

// roll is where our middleware says which rule it has, when it is called without a handler. A
// function cannot be recognised from outside: reflect promises no identity, and its result is a
// function, too.
var roll struct {
	asking sync.Mutex
	answer atomic.Pointer[guard]
}

// ruleOf returns the rule in m, or nil.
func ruleOf(m echo.MiddlewareFunc) *guard {
	if m == nil || reflect.ValueOf(m).Pointer() != wrapCode {
		return nil
	}
	roll.asking.Lock()
	defer roll.asking.Unlock()
	roll.answer.Store(nil)
	func() {
		defer func() { _ = recover() }() // somebody else's middleware may panic
		m(nil)
	}()
	return roll.answer.Load()
}

// errNoHandler: a middleware was put around nothing. Echo does not do that.
var errNoHandler = errors.New("lockecho: no handler")

// wrapNothing is wrap without a handler.
func (g *guard) wrapNothing() echo.HandlerFunc {
	roll.answer.Store(g)
	return func(echo.Context) error { return errNoHandler }
}

// Watcher knows the routes of an Echo and the rules of each. It is safe for concurrent use.
// Make one with [Watch].
type Watcher struct {
	echo *echo.Echo

	mu     sync.Mutex
	global []*guard
	routes []route
}

type route struct {
	target, method, path string
	rules                []*guard
}

// Watch makes e report each route that is added from now on, including those of its groups and
// hosts. Call it first: routes that exist already are listed without rules, because their rules
// cannot be seen any more.
//
//	cov := lockecho.Watch(e)
//	e.PUT("/users/:id/status", setStatus, locks.Serialize("user:status:{path.id}"))
//	e.GET("/users/:id", getUser)
//	coverage.Log(ctx, logger, cov.Coverage())
//	if err := cov.Check(); err != nil {
//		log.Fatal(err)
//	}
//
// Other middleware, and rules inside of it, count as no rule. Middleware in front of all routes
// is seen only if [Watcher.Use] put it there. e.OnAddRouteHandler is called as before; code
// that sets it later replaces Watch.
func Watch(e *echo.Echo) *Watcher {
	w := &Watcher{echo: e}
	for _, r := range e.Routes() {
		w.add("", *r, nil)
	}
	before := e.OnAddRouteHandler
	e.OnAddRouteHandler = func(host string, r echo.Route, h echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
		w.add(host, r, middleware)
		if before != nil {
			before(host, r, h, middleware)
		}
	}
	return w
}

// Use is like the Echo's Use, for middleware in front of all routes. Echo itself does not
// report that middleware.
func (w *Watcher) Use(middleware ...echo.MiddlewareFunc) {
	w.echo.Use(middleware...)
	rules := rulesOf(middleware) // calls middleware
	w.mu.Lock()
	defer w.mu.Unlock()
	w.global = append(w.global, rules...)
}

func rulesOf(middleware []echo.MiddlewareFunc) []*guard {
	var rules []*guard
	for _, m := range middleware {
		if g := ruleOf(m); g != nil {
			rules = append(rules, g)
		}
	}
	return rules
}

func (w *Watcher) add(host string, r echo.Route, middleware []echo.MiddlewareFunc) {
	if r.Method == echo.RouteNotFound {
		return // a route that a group with middleware adds by itself
	}
	added := route{target: r.Method + " " + host + r.Path, method: r.Method, path: r.Path, rules: rulesOf(middleware)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.routes {
		if w.routes[i].target == added.target { // the later route counts, as in Echo
			w.routes[i] = added
			return
		}
	}
	w.routes = append(w.routes, added)
}

// Coverage lists the routes, such as "PUT /users/:id/status", in the order in which they were
// added, with the rules of each. The name of a host is in front of the path. A rule with a
// Skipper is listed like any other. A rule that [Watcher.Check] reports has its Problem set.
func (w *Watcher) Coverage() []coverage.Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]coverage.Target, len(w.routes))
	for i, r := range w.routes {
		all[i].Name = r.target
		for _, rules := range [][]*guard{w.global, r.rules} {
			for _, g := range rules {
				if info, covers := g.rule.Covers(r.method); covers {
					if g.always {
						info.Problem = g.rule.Problem(paramsOf(r.path))
					}
					all[i].Rules = append(all[i].Rules, info)
				}
			}
		}
	}
	return all
}

// Check returns an error for each rule whose template has a {path.name} that its route does not
// have: such a rule answers every request with 500. The error joins all of them, each with the
// route, the rule and the placeholder. Call it when all routes are added.
//
// It does not know about middleware that calls SetParamNames. It leaves out a rule with a
// Skipper, which may skip those requests.
func (w *Watcher) Check() error { return httprule.Check("lockecho", w.Coverage()) }

// paramsOf returns the names of a path's parameters, as Echo's router reads them.
func paramsOf(path string) []string {
	var names []string
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '*':
			names = append(names, "*")
		case path[i] == ':' && (i == 0 || path[i-1] != '\\'):
			name, _, _ := strings.Cut(path[i+1:], "/")
			names = append(names, name)
			i += len(name)
		}
	}
	return names
}
