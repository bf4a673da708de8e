package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/im/node"
)

// patience is how long a transfer waits for an account: long enough to look at the deadlock.
const patience = 10 * time.Minute

// transfer shows how not to do it: it nests two keys in the order of the request, so a transfer
// from a to b and one from b to a can wait for each other. core.Engine.AcquireAll takes both keys
// at once, in the same order in all processes.
func transfer(n *node.Node) echo.HandlerFunc {
	opts := []core.CallOption{core.WithRule("transfer"), core.WithMaxWait(patience)}
	return func(c echo.Context) error {
		err := n.Locks.Do(c.Request().Context(), "account:"+c.Param("from"), func(ctx context.Context) error {
			n.Pause(ctx) // the other one takes its first key meanwhile
			return n.Locks.Do(ctx, "account:"+c.Param("to"), func(context.Context) error { return nil }, opts...)
		}, opts...)
		if err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}
}

// pause takes some time under the route's lock.
func pause(n *node.Node) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			n.Pause(c.Request().Context())
			return next(c)
		}
	}
}
