package lockgin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockgin "github.com/keyturn/keyturn/middleware/gin"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func newRouter(t *testing.T) (*gin.Engine, lockgin.Guard) {
	t.Helper()
	router := gin.New()
	router.ContextWithFallback = true
	guard, err := lockgin.New(router)
	if err != nil {
		t.Fatal(err)
	}
	return router, guard
}

func do(h http.Handler, method, target string) *httptest.ResponseRecorder {
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest(method, target, strings.NewReader("")))
	return res
}

// A handler that passes c on has the lease, and learns that it is lost.
func TestTheContextOfGinHasTheLease(t *testing.T) {
	eng := locktest.New(t).Engine
	router, guard := newRouter(t)
	work := func(ctx context.Context, key string) error { return core.AssertHeld(ctx, core.Exclusive(key)) }
	router.PUT("/users/:id/status", guard(lockhttp.New(eng).Serialize("user:{path.id}")), func(c *gin.Context) {
		if err := errors.Join(work(c, "user:42"), work(c.Request.Context(), "user:42")); err != nil {
			t.Error(err)
		}
		if _, err := eng.ForceRelease(context.Background(), "user:42", "test"); err != nil {
			t.Error(err)
		}
		lease, _ := core.LeaseFrom(c)
		if err := lease.Extend(c, time.Minute); !errors.Is(err, core.ErrLeaseLost) {
			t.Error(err)
		}
		<-c.Done()
		c.Status(http.StatusNoContent)
	})
	if res := do(router, "PUT", "/users/42/status"); res.Code != http.StatusConflict || !strings.Contains(res.Body.String(), "LEASE_LOST") {
		t.Error(res.Code, res.Body)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, router := range []*gin.Engine{nil, gin.New()} {
		if guard, err := lockgin.New(router); guard != nil || !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%v", err)
		}
	}
}

// What is outside of a guard sees what was sent, and what is inside what the handler wrote. A refusal ends
// the chain.
func TestAroundAGuard(t *testing.T) {
	eng := locktest.New(t).Engine
	router, guard := newRouter(t)
	var said []string
	say := func(where string) gin.HandlerFunc {
		return func(c *gin.Context) {
			before := c.Request
			c.Next()
			said = append(said, fmt.Sprint(where, " ", c.Writer.Status(), " ", c.Writer.Written(), " ", c.Writer.Size(), " ", c.Request == before))
		}
	}
	rule := guard(lockhttp.New(eng).Serialize("k", core.WithFailFast()))
	router.POST("/status", say("outside"), rule, say("inside"), func(c *gin.Context) { c.Status(http.StatusAccepted) })
	router.POST("/body", say("outside"), rule, say("inside"), func(c *gin.Context) { c.String(http.StatusCreated, "%s", c.FullPath()) })
	router.POST("/abort", say("outside"), rule, say("inside"), func(c *gin.Context) { c.AbortWithStatus(http.StatusTeapot) }, say("never"))
	for path, want := range map[string]struct {
		status int
		body   string
		said   string
	}{
		"/status": {202, "", "inside 202 false -1 true; outside 202 true 0 true"},
		"/body":   {201, "/body", "inside 201 true 5 true; outside 201 true 5 true"},
		"/abort":  {418, "", "inside 418 true 0 true; outside 418 true 0 true"},
	} {
		said = nil
		if res := do(router, "POST", path); res.Code != want.status || res.Body.String() != want.body || strings.Join(said, "; ") != want.said {
			t.Errorf("%s: %d %q, %q", path, res.Code, res.Body, said)
		}
	}
	lease, err := eng.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(context.Background())
	said = nil
	if res := do(router, "POST", "/body"); res.Code != http.StatusConflict || len(said) != 1 || !strings.HasPrefix(said[0], "outside 409 true") {
		t.Errorf("%d, %q", res.Code, said)
	}
}
