package snippets

import (
	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/echo"
)

// snippet

func routes(e *echo.Echo, eng *core.Engine, setStatus, pay echo.HandlerFunc, account func(echo.Context) string) error {
	locks, watcher := lockecho.New(eng), lockecho.Watch(e)
	e.PUT("/users/:id/status", setStatus, locks.Serialize("user:status:{path.id}"))
	e.POST("/payments", pay, locks.Idempotency(account)) // by the header Idempotency-Key
	return watcher.Check()                               // a {path.x} that a route lacks stops the start
}

// end snippet
