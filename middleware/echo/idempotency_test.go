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
	pay := func(c echo.Context) error {
		if c.QueryParam("no") != "" {
			return echo.NewHTTPError(http.StatusPaymentRequired, fmt.Sprint(calls.Add(1)))
		}
		return c.String(201, fmt.Sprint(calls.Add(1)))
	}
	s.POST("/accounts/:id/pay", pay)
	s.POST("/accounts/:id/refund", pay)
	s.GET("/accounts/:id/pay", pay)

	send := func(method, target, user, key string) ruletest.Answer {
		if key == "" {
			return s.Do(method, target, "ten", "User", user)
		}
		return s.Do(method, target, "ten", "User", user, "Idempotency-Key", key)
	}
	for _, tt := range []struct {
		name, method, target, user, key string
		body                            string // the number of the call whose response it is
		replayed                        bool
	}{
		{"first", "POST", "/accounts/1/pay", "ada", "k", "1", false},
		{"again", "POST", "/accounts/1/pay", "ada", `"k"`, "1", true},
		{"another user", "POST", "/accounts/1/pay", "eve", "k", "2", false},
		{"another route", "POST", "/accounts/1/refund", "ada", "k", "3", false},
		{"GET", "GET", "/accounts/1/pay", "ada", "", "4", false},
		{"an error that is an outcome", "POST", "/accounts/1/pay?no=1", "ada", "l", "{\"message\":\"5\"}\n", false},
		{"the error again", "POST", "/accounts/1/pay?no=1", "ada", "l", "{\"message\":\"5\"}\n", true},
	} {
		a := send(tt.method, tt.target, tt.user, tt.key)
		if a.Body != tt.body || (a.Header.Get(lockhttp.ReplayedHeader) == "true") != tt.replayed {
			t.Errorf("%s: %+v, want %q, replayed: %v", tt.name, a, tt.body, tt.replayed)
		}
	}
	send("POST", "/accounts/2/pay", "ada", "k").Problem(t, 422, "FINGERPRINT_MISMATCH") // of the same route
	if calls.Load() != 5 {
		t.Errorf("%d calls, want 5", calls.Load())
	}
}
