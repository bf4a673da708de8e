package lockecho_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/middleware/http"
)

// TestIdempotency: for all routes at once, by e.Use; the route and whoever has
// been authenticated are part of the record's key.
func TestIdempotency(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", c.Request().Header.Get("User"))
			return next(c)
		}
	}
	user := func(r *http.Request) string { return lockecho.Context(r).Get("user").(string) }
	s.Use(authenticate, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", user)))
	pay := func(c echo.Context) error { return c.String(201, fmt.Sprint(calls.Add(1))) }
	s.POST("/accounts/:id/pay", pay)
	s.POST("/accounts/:id/refund", pay)

	for _, tt := range []struct {
		name, target, user, key string
		body                    string // the number of the call whose response it is
		replayed                bool
	}{
		{"first", "/accounts/1/pay", "ada", "k", "1", false},
		{"again", "/accounts/1/pay", "ada", `"k"`, "1", true},
		{"another user", "/accounts/1/pay", "eve", "k", "2", false},
		{"another route", "/accounts/1/refund", "ada", "k", "3", false},
	} {
		a := s.Do("POST", tt.target, "ten", "User", tt.user, "Idempotency-Key", tt.key)
		if a.Body != tt.body || a.Replayed() != tt.replayed {
			t.Errorf("%s: %+v, want %q, replayed: %v", tt.name, a, tt.body, tt.replayed)
		}
	}
	s.Do("POST", "/accounts/2/pay", "ten", "User", "ada", "Idempotency-Key", "k").Problem(t, 422, "FINGERPRINT_MISMATCH") // of the same route
}
