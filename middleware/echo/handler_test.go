package lockecho_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// TestErrorHandlerOfAllRules: it gets what the service needs for an answer of its own.
func TestErrorHandlerOfAllRules(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	told := make(chan *reasons.Refusal, 1)
	locks, err := lockecho.New(eng, lockhttp.Serialize("POST /:id", "k:{path.id}", core.WithFailFast()))
	if err != nil {
		t.Fatal(err)
	}
	locks = locks.WithErrorHandler(func(_ echo.Context, refused *reasons.Refusal) error {
		told <- refused
		return echo.NewHTTPError(http.StatusTeapot)
	})
	e := echo.New()
	e.POST("/:id", func(c echo.Context) error { return c.NoContent(http.StatusOK) }, locks.Middleware)
	s := ruletest.Serve(t, e, false)
	lease := ruletest.MustAcquire(t, eng, "k:1")
	if a := s.Do("POST", "/1", ""); a.Status != http.StatusTeapot {
		t.Errorf("%+v", a)
	}
	if got := <-told; got.Reason != reasons.LockHeld || got.Rule != "k:{path.id}" || got.Key != "k:1" || !got.Again || got.Ran || got.RetryAfter < time.Second || !errors.Is(got, core.ErrHeld) {
		t.Errorf("told %+v", got)
	}
	ruletest.MustRelease(t, lease)
}
