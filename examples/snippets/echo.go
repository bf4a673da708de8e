package snippets

import (
	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/echo"
)

// snippet

func routes(e *echo.Echo, eng *core.Engine, setStatus, pay echo.HandlerFunc) {
	locks := lockecho.New(eng)
	e.PUT("/users/:id/status", setStatus, locks.Serialize("user:status:{path.id}"))
	e.POST("/payments", pay, locks.Once("payment:{header.x-account}:{header.idempotency-key}"))
}

// end snippet
