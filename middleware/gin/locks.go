package lockgin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// Locks is a set of rules over an engine, for the routes of gin. It is safe for concurrent use. Make
// one with [New].
type Locks struct{ rules *lockhttp.Locks }

// New checks the rules and makes Locks of them. It does no I/O. Its errors are those of lockhttp.New.
func New(eng *core.Engine, rules ...lockhttp.Rule) (*Locks, error) {
	l, err := lockhttp.New(eng, rules...)
	if err != nil {
		return nil, err
	}
	return &Locks{rules: l}, nil
}

// WithErrorHandler returns Locks with the same rules that answer refusals by h. Use them in place of l.
// nil: lockhttp.DefaultErrorHandler.
func (l *Locks) WithErrorHandler(h lockhttp.ErrorHandler) *Locks {
	return &Locks{rules: l.rules.WithErrorHandler(h)}
}

// Middleware is a gin.HandlerFunc, for gin.Engine.Use or for a route. It puts the rules of a request's
// route around the handlers that follow. Requests without a route, or without a rule, pass.
//
// It panics if the router lacks ContextWithFallback: a handler that passes its *gin.Context on would
// lose the lease. [Locks.Check] finds that at start.
func (l *Locks) Middleware(c *gin.Context) {
	if c.FullPath() == "" {
		return
	}
	around(c, l.rules.Middleware)
}

// around puts rules around the handlers that follow.
func around(c *gin.Context, rules func(http.Handler) http.Handler) {
	outer, at := c.Writer, &route{c: c}
	req := c.Request
	defer func() {
		c.Writer, c.Request = outer, req // the lease's context is over
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				reset(outer)
			}
			panic(v)
		}
		if !at.passed { // a rule has answered
			c.Abort()
		}
	}()
	inner := req.WithContext(context.WithValue(req.Context(), routeKey{}, at))
	for _, p := range c.Params {
		inner.SetPathValue(p.Key, p.Value)
	}
	inner.Pattern = req.Method + " " + c.FullPath() // as ServeMux has it: the whole pattern
	rules(http.HandlerFunc(inside)).ServeHTTP(plain{outer}, inner)
}

// route is where a request goes on within its rules.
type route struct {
	c      *gin.Context
	passed bool
}

type routeKey struct{}

// Context returns the gin context of a request that a key function, a precheck or the like gets.
func Context(req *http.Request) *gin.Context {
	c := routeOf(req).c
	c.Request = req // whose body can be read again
	return c
}

func routeOf(req *http.Request) *route {
	return req.Context().Value(routeKey{}).(*route) // a rule's context descends from the request's
}

// inside goes on with the handlers of the route, under the rules.
func inside(w http.ResponseWriter, req *http.Request) {
	at := routeOf(req)
	at.passed = true
	at.c.Request = req
	if at.c.Done() == nil && req.Context().Done() != nil {
		panic(errNoFallback)
	}
	if _, bare := w.(plain); bare { // no rule keeps the response back
		at.c.Next()
		return
	}
	outer, before := at.c.Writer, len(at.c.Errors)
	kept := &writer{ResponseWriter: outer, to: w, status: outer.Status()}
	at.c.Writer = kept
	at.c.Next()
	var failed error
	if len(at.c.Errors) > before && !kept.written { // an outer middleware may answer the error
		failed = at.c.Errors.Last()
	}
	// A middleware that sets a deadline leaves its request here.
	httprule.Ended(w, errors.Is(at.c.Request.Context().Err(), context.DeadlineExceeded), failed)
	if failed != nil {
		outer.WriteHeader(kept.status)
		return
	}
	kept.WriteHeaderNow() // as gin does at the end of a request
}

// reset breaks off a response of which a part was sent. A writer that has no deadline can't be broken off.
func reset(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}

// errNoFallback says that c is a context without the lease.
var errNoFallback = fmt.Errorf("lockgin: %w", &core.OptionError{
	Option: "ContextWithFallback", Value: false, Want: "true, so that a *gin.Context that is passed on has the lease",
})

// Coverage lists the routes of router, such as "PUT /users/:id/status", each with its rules. See
// lockhttp.Locks.Coverage.
func (l *Locks) Coverage(router *gin.Engine) []coverage.Target {
	return l.rules.Coverage(routes(router)...)
}

// Check returns an error for each rule that has no route in router, or whose template has a
// {path.name} that its route does not have, and one if router lacks ContextWithFallback. Call it when
// all routes are added.
func (l *Locks) Check(router *gin.Engine) error {
	err := l.rules.Check(routes(router)...)
	if !router.ContextWithFallback {
		err = errors.Join(err, errNoFallback)
	}
	return err
}

func routes(router *gin.Engine) (all []string) {
	for _, r := range router.Routes() {
		all = append(all, r.Method+" "+r.Path)
	}
	return all
}
