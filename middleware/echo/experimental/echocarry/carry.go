// Package echocarry lets a handler of Echo run under the leases of its caller: see
// core/experimental/carry. The client has httpcarry.Transport; the server has [Accept] before
// its rules:
//
//	e.Use(echocarry.Accept)
//
// A server without it ignores what clients carry. The package is experimental, as its place
// says.
package echocarry

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core/experimental/carry"
)

// Accept is an [echo.MiddlewareFunc] that runs next under the leases that the client carries,
// as far as the store confirms them (carry.Accept). It is safe for concurrent use.
func Accept(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if said := r.Header.Values(carry.Header); len(said) > 0 {
			c.SetRequest(r.WithContext(carry.Accept(r.Context(), strings.Join(said, ","))))
		}
		return next(c)
	}
}
