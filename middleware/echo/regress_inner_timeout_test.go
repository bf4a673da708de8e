package lockecho_test

import (
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// A handler that gave up because of a ContextTimeout inside of the rule had its part of an answer stored and
// replayed: the timeout ends a context of its own, not the one that the rule made.
func TestAPartBehindAnInnerTimeoutIsNotReplayed(t *testing.T) {
	s := newSite(t)
	s.Use(rule(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Idempotency("*", lockhttp.AnyCaller)))
	s.Use(middleware.ContextTimeout(20 * time.Millisecond))
	s.POST("/orders", func(c echo.Context) error {
		_ = c.String(200, "the beginn")
		<-c.Request().Context().Done()
		return nil
	})
	s.Do("POST", "/orders", "body", "Idempotency-Key", "1")
	s.Do("POST", "/orders", "body", "Idempotency-Key", "1").Problem(t, 409, "RESULT_NOT_KEPT")
}
