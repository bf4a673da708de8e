package lockecho

import (
	"context"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// guard is a checked rule for the requests of a route.
type guard struct {
	rule      *rule.Rule[*request]
	bodyLimit int64
	refuse    ErrorHandler
}

// wrap makes Echo's form of middleware.
func (g *guard) wrap(skip middleware.Skipper, refuse ErrorHandler, serve func(echo.Context, echo.HandlerFunc) error) echo.MiddlewareFunc {
	if skip == nil {
		skip = middleware.DefaultSkipper
	}
	if g.refuse = refuse; refuse == nil {
		g.refuse = DefaultErrorHandler
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if skip(c) {
				return next(c)
			}
			return serve(c, next)
		}
	}
}

// heldBytes is how much of a response is kept back until the lock is released.
const heldBytes = core.DefaultResultLimit

// serialize runs next while it holds what the request names.
func (g *guard) serialize(c echo.Context, next echo.HandlerFunc) error {
	r := &request{Context: c, limit: g.bodyLimit}
	claims, err := g.rule.Claims(r)
	r.rewind()
	if err != nil {
		return g.refuse(c, err)
	}
	h := hold(c.Response(), heldBytes, false)
	defer h.end() // for a panic; else it is done below
	refused, own := g.rule.Serialize(c.Request().Context(), claims, func(ctx context.Context) error {
		return call(ctx, c, next)
	})
	return g.finish(c, h, refused, own)
}

// call runs next with ctx as the request's context. The request is put back
// afterwards: outer middleware would find a context that ended with the lease.
func call(ctx context.Context, c echo.Context, next echo.HandlerFunc) error {
	outer := c.Request()
	c.SetRequest(outer.WithContext(ctx))
	defer c.SetRequest(outer)
	return next(c)
}

// finish sends the handler's response or, if the engine refused, answers that
// in its place.
func (g *guard) finish(c echo.Context, h *heldResponse, refused, own error) error {
	if refused == nil {
		err := h.send()
		h.end()
		if own != nil {
			return own // as it is: Echo looks at its type
		}
		return err
	}
	h.end()
	switch {
	case h.hijacked:
		c.Response().Committed = true // the connection is the handler's
		return refused
	case h.sent:
		breakOff(c.Response())
		return refused
	}
	return g.refuse(c, refused)
}
