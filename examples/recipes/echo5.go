package recipes

import (
	"net/http"

	"github.com/labstack/echo/v5"

	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// setStatusRoute: Echo v5 wraps a rule of lockhttp as it is, with the path values. A rule that
// serializes may be wrapped. One with Once must not: it would record the response before Echo has
// answered the handler's error.
func setStatusRoute(e *echo.Echo, locks *lockhttp.Locks, setStatus echo.HandlerFunc) {
	e.PUT("/users/:id/status", setStatus, echo.WrapMiddleware(locks.Middleware))
}

// paymentRoute: for Once, the rule is around Echo as a whole, and answers of Echo are recorded, too.
func paymentRoute(e *echo.Echo, locks *lockhttp.Locks) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /payments", locks.Middleware(e))
	mux.Handle("/", e)
	return mux
}
