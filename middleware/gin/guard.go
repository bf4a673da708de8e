package lockgin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
)

// Guard makes a middleware of gin from one of net/http, such as a rule of lockhttp. It is safe for
// concurrent use.
type Guard func(rule func(http.Handler) http.Handler) gin.HandlerFunc

// New returns the guard for the routes of router. The error matches core.ErrInvalidOption if router is
// nil, or lacks ContextWithFallback: a handler that passes its *gin.Context on would lose the lease.
func New(router *gin.Engine) (Guard, error) {
	switch {
	case router == nil:
		return nil, fmt.Errorf("lockgin: %w", &core.OptionError{Option: "New", Value: nil, Want: "a *gin.Engine"})
	case !router.ContextWithFallback:
		return nil, fmt.Errorf("lockgin: %w", &core.OptionError{
			Option: "ContextWithFallback", Value: false, Want: "true, so that a *gin.Context that is passed on has the lease",
		})
	}
	return guard, nil
}

func guard(rule func(http.Handler) http.Handler) gin.HandlerFunc {
	handler := rule(http.HandlerFunc(inside))
	return func(c *gin.Context) {
		outer, req, r := c.Writer, c.Request, &route{c: c}
		defer func() {
			c.Writer, c.Request = outer, req // the lease's context is over
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler {
					reset(outer)
				}
				panic(v)
			}
			if !r.passed { // the rule has answered
				c.Abort()
			}
		}()
		for _, p := range c.Params {
			req.SetPathValue(p.Key, p.Value)
		}
		req.Pattern = c.FullPath()
		handler.ServeHTTP(plain{outer}, req.WithContext(context.WithValue(req.Context(), routeKey{}, r)))
	}
}

// route is where a request goes on within a rule.
type route struct {
	c      *gin.Context
	passed bool
}

type routeKey struct{}

// inside goes on with the handlers of the route, under the rule.
func inside(w http.ResponseWriter, req *http.Request) {
	r := req.Context().Value(routeKey{}).(*route) // a rule's context descends from the request's
	r.passed = true
	kept := &writer{ResponseWriter: r.c.Writer, to: w, status: r.c.Writer.Status()}
	r.c.Request, r.c.Writer = req, kept
	r.c.Next()
	kept.WriteHeaderNow() // as gin does at the end of a request
}

// reset breaks off a response of which a part was sent. A writer that has no deadline can't be broken off.
func reset(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}
