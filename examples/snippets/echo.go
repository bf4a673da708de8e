package snippets

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/middleware/http"
)

// snippet

func routes(e *echo.Echo, eng *core.Engine, setStatus, pay echo.HandlerFunc, account func(*http.Request) string) error {
	locks, err := lockecho.New(eng,
		lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"),
		lockhttp.Idempotency("POST /payments", account), // by the header Idempotency-Key
	)
	if err != nil {
		return err
	}
	e.Use(locks.Middleware)
	e.PUT("/users/:id/status", setStatus)
	e.POST("/payments", pay)
	return locks.Check(e) // a misspelt route, or a {path.x} that it lacks, stops the start
}

// end snippet
