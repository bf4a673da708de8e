package lockecho

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// Locks is a set of rules over an engine, for the routes of an Echo. It is safe for concurrent use.
// Make one with [New].
type Locks struct{ rules *lockhttp.Locks }

// New checks the rules and makes Locks of them. It does no I/O. Its errors are those of lockhttp.New.
func New(eng *core.Engine, rules ...lockhttp.Rule) (*Locks, error) {
	l, err := lockhttp.New(eng, rules...)
	if err != nil {
		return nil, err
	}
	return (&Locks{rules: l}).WithErrorHandler(nil), nil
}

// ErrorHandler answers a request whose handler did not run, or whose response must not be sent
// because its lease was lost. What it returns is the middleware's error. It is not called if a part of
// the response has been sent. Then the connection ends, without an answer.
type ErrorHandler func(c echo.Context, refused *reasons.Refusal) error

// WithErrorHandler returns Locks with the same rules that answer refusals by h. Use them in place of l.
// nil: [DefaultErrorHandler].
func (l *Locks) WithErrorHandler(h ErrorHandler) *Locks {
	if h == nil {
		h = DefaultErrorHandler
	}
	return &Locks{rules: l.rules.WithErrorHandler(func(w http.ResponseWriter, req *http.Request, refused *reasons.Refusal) {
		at := routeOf(req)
		p := ProblemOf(refused)
		refused.Reason, refused.RetryAfter = p.Reason, p.RetryAfter // Echo's BodyLimit has one of its own
		if httprule.Of(w) == nil {
			at.err = h(at.c, refused)
			return
		}
		defer writeTo(w, at.c)() // the rule around this one has to see the answer
		if at.err = h(at.c, refused); at.err != nil {
			at.c.Error(at.err)
		}
	})}
}

// route is where a request goes on within its rules.
type route struct {
	c    echo.Context
	next echo.HandlerFunc
	err  error // of the handler, or of its refusal
}

type routeKey struct{}

func routeOf(req *http.Request) *route {
	return req.Context().Value(routeKey{}).(*route) // a rule's context descends from the request's
}

// Context returns the Echo context of the request that a key function, a precheck or the like gets.
func Context(req *http.Request) echo.Context {
	c := routeOf(req).c
	c.SetRequest(req) // whose body can be read again
	return c
}

// Middleware is an echo.MiddlewareFunc, for Echo.Use or for a route. It puts the rules of a request's
// route around next. Requests without a route, or without a rule, pass.
func (l *Locks) Middleware(next echo.HandlerFunc) echo.HandlerFunc {
	guarded := l.rules.Middleware(http.HandlerFunc(inside))
	return func(c echo.Context) error {
		if c.Path() == "" {
			return next(c)
		}
		req, at := c.Request(), &route{c: c, next: next}
		defer c.SetRequest(req)
		ctx := context.WithValue(req.Context(), httprule.Late{}, func(err error) { at.err = err })
		inner := req.WithContext(context.WithValue(ctx, routeKey{}, at))
		inner.Pattern = req.Method + " " + c.Path() // as ServeMux has it: the whole pattern
		for i, name := range c.ParamNames() {
			inner.SetPathValue(name, decoded(req, c.ParamValues()[i]))
		}
		guarded.ServeHTTP(sink{c.Response()}, inner)
		return at.err
	}
}

// decoded returns the value of a parameter. Echo matched the path as it was sent. %34%32 and 42 are the
// same path (RFC 3986, 6.2.2.2), and must not be two locks.
func decoded(req *http.Request, value string) string {
	if req.URL.RawPath == "" {
		return value
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return value
	}
	return plain
}

// writeTo gives c a response of its own, because what is written to w may never be sent. Outer middleware
// gets the other response from restore, as it was.
func writeTo(w http.ResponseWriter, c echo.Context) (restore func()) {
	res := c.Response()
	c.SetResponse(echo.NewResponse(w, c.Echo()))
	c.Response().Status = http.StatusOK // Echo's initial value
	return func() { c.SetResponse(res) }
}

// inside runs the handler under the rules.
//
// Echo's error handler makes a response of an error here, where the rules can see it. The error is
// returned as well, for middleware that logs it; Echo does not answer a request twice.
func inside(w http.ResponseWriter, req *http.Request) {
	at := routeOf(req)
	c := at.c
	if httprule.Of(w) == nil {
		at.err = at.next(c)
		return
	}
	c.SetRequest(req)
	defer writeTo(w, c)()
	if at.err = at.next(c); at.err != nil {
		c.Error(at.err)
	}
	// A middleware such as ContextTimeout leaves its request here, whose context it has cancelled by now.
	httprule.Ended(w, errors.Is(c.Request().Context().Err(), context.DeadlineExceeded), at.err)
}

// Coverage lists the routes of e, such as "PUT /users/:id/status", each with its rules. See
// lockhttp.Locks.Coverage. A rule covers its route on every host.
func (l *Locks) Coverage(e *echo.Echo) []coverage.Target { return l.rules.Coverage(routes(e)...) }

// Check returns an error for each rule that has no route in e, or whose template has a {path.name}
// that its route does not have. Call it when all routes are added.
func (l *Locks) Check(e *echo.Echo) error { return l.rules.Check(routes(e)...) }

// routes returns the routes of e and its hosts, in order.
func routes(e *echo.Echo) (all []string) {
	routers := append(slices.Collect(maps.Values(e.Routers())), e.Router())
	for _, router := range routers {
		for _, r := range router.Routes() {
			if r.Method != echo.RouteNotFound { // which a group with middleware adds by itself
				all = append(all, r.Method+" "+r.Path)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
