package lockecho

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/middleware/http"
)

// LeaseHeader is the header in which leases are carried.
const LeaseHeader = lockhttp.LeaseHeader

// AcceptLeases is a server's side of lockhttp.CarryLeases: what the client says
// that it holds is believed as far as the store confirms it (core.WithCarried), by
// the rules behind this middleware and by what the handler itself acquires. It is
// an [echo.MiddlewareFunc], and stands before the rules:
//
//	e.Use(lockecho.AcceptLeases)
//
// A server without it takes no notice.
func AcceptLeases(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if said := r.Header.Values(LeaseHeader); len(said) > 0 {
			c.SetRequest(r.WithContext(core.WithCarried(r.Context(), strings.Join(said, ","))))
		}
		return next(c)
	}
}
