package lockecho

import (
	"errors"
	"reflect"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
)

// wrapCode is the code of all our middleware.
var wrapCode = reflect.ValueOf((*guard)(nil).wrap).Pointer()

// probe is a context that asks a middleware of ours for its rule.
type probe struct {
	echo.Context
	guard *guard
}

// errNoHandler: a middleware was put around nothing. Echo does not do that.
var errNoHandler = errors.New("lockecho: no handler")

// answerProbe stands where a handler would, when there is none.
func (g *guard) answerProbe(c echo.Context) error {
	p, ok := c.(*probe)
	if !ok {
		return errNoHandler
	}
	p.guard = g
	return nil
}

// ruleOf returns the rule in m, or nil. A middleware of somebody else's is not
// called: nobody knows what it does.
func ruleOf(m echo.MiddlewareFunc) *guard {
	if m == nil || reflect.ValueOf(m).Pointer() != wrapCode {
		return nil
	}
	var p probe
	_ = m(nil)(&p)
	return p.guard
}

// Watcher knows the routes of an Echo with the rules of each. It is safe for
// concurrent use.
type Watcher struct {
	echo *echo.Echo

	mu     sync.Mutex
	global []*guard
	routes []route
}

type route struct {
	target, method string
	rules          []*guard
}

// Watch has e tell of each route that is added from now on, also those of its
// groups and hosts: call it first. Routes that are there already are listed
// without rules, as those can't be seen any more.
//
//	cov := lockecho.Watch(e)
//	e.PUT("/users/:id/status", setStatus, locks.Serialize("user:status:{path.id}"))
//	e.GET("/users/:id", getUser)
//	core.LogCoverage(ctx, logger, cov.Coverage())
//
// Our rules are told from other middleware, and from rules inside of it, which
// count as none. What stands in front of all routes is seen if [Watcher.Use]
// put it there. e.OnAddRouteHandler is called as before; who sets it later takes
// Watch's place.
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

// Use is the Echo's Use, for middleware in front of all routes: Echo itself
// does not tell what is there.
func (w *Watcher) Use(middleware ...echo.MiddlewareFunc) {
	w.echo.Use(middleware...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.global = append(w.global, rulesOf(middleware)...)
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
		return // what a group with middleware adds by itself
	}
	added := route{target: r.Method + " " + host + r.Path, method: r.Method, rules: rulesOf(middleware)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.routes {
		if w.routes[i].target == added.target { // the later one counts, as in Echo
			w.routes[i] = added
			return
		}
	}
	w.routes = append(w.routes, added)
}

// Coverage lists the routes, in the order in which they were added, with the
// rules of each, such as "PUT /users/:id/status". The name of a host stands in
// front of the path. A rule with a Skipper is listed like any other.
func (w *Watcher) Coverage() []core.Coverage {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]core.Coverage, len(w.routes))
	for i, r := range w.routes {
		all[i].Target = r.target
		for _, rules := range [][]*guard{w.global, r.rules} {
			for _, g := range rules {
				if info, covers := g.rule.Covers(r.method); covers {
					all[i].Rules = append(all[i].Rules, info)
				}
			}
		}
	}
	return all
}
