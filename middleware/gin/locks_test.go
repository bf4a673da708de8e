package lockgin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/locktest"
	lockgin "github.com/keyturn/keyturn/middleware/gin"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func newRouter(t *testing.T, eng *core.Engine, rules ...lockhttp.Rule) (*gin.Engine, *lockgin.Locks) {
	t.Helper()
	router := gin.New()
	router.ContextWithFallback = true
	locks, err := lockgin.New(eng, rules...)
	must(t, err)
	return router, locks
}

func do(h http.Handler, method, target string) *httptest.ResponseRecorder {
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest(method, target, strings.NewReader("")))
	return res
}

// A handler that passes c on has the lease, and learns that it is lost.
func TestTheContextOfGinHasTheLease(t *testing.T) {
	eng := locktest.New(t).Engine
	router, locks := newRouter(t, eng, lockhttp.Serialize("PUT /users/:id/status", "user:{path.id}"))
	router.Use(locks.Middleware)
	work := func(ctx context.Context, key string) error { return core.AssertHeld(ctx, core.Exclusive(key)) }
	router.PUT("/users/:id/status", func(c *gin.Context) {
		wantNil(t, errors.Join(work(c, "user:42"), work(c.Request.Context(), "user:42")))
		wantNil(t, checktest.ErrorOf(eng.ForceRelease(context.Background(), "user:42", "test")))
		lease, _ := core.LeaseFrom(c)
		wantIs(t, "error", lease.Extend(c, time.Minute), core.ErrLeaseLost)
		<-c.Done()
		c.Status(http.StatusNoContent)
	})
	if res := do(router, "PUT", "/users/42/status"); res.Code != http.StatusConflict || !strings.Contains(res.Body.String(), "LEASE_LOST") {
		t.Error(res.Code, res.Body)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, rule := range []lockhttp.Rule{{}, lockhttp.Serialize("*", "{cookie.a}"), lockhttp.Serialize("*", "a")} {
		if locks, err := lockgin.New(nil, rule); locks != nil || !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%v", err)
		}
	}
}

func TestCheckAndCoverage(t *testing.T) {
	router, locks := newRouter(t, locktest.New(t).Engine,
		lockhttp.Serialize("PUT /users/:id", "user:{path.id}"), lockhttp.Serialize("/files/*path", "file:{path.path}"))
	nothing := func(*gin.Context) {}
	router.PUT("/users/:id", nothing)
	router.GET("/users/:id", nothing)
	router.PUT("/files/*path", nothing)
	wantNil(t, locks.Check(router))
	if left := coverage.Uncovered(locks.Coverage(router)); !slices.Equal(left, []string{"GET /users/:id"}) {
		t.Errorf("%q", left)
	}
	router.ContextWithFallback = false
	wantIs(t, "error", locks.Check(router), core.ErrInvalidOption)
	if err := locks.Check(gin.New()); err == nil || !strings.Contains(err.Error(), "PUT /users/:id") || !strings.Contains(err.Error(), "/files/*path") {
		t.Error(err)
	}
}

// A router whose contexts have no lease answers no request.
func TestNoFallback(t *testing.T) {
	router, locks := newRouter(t, locktest.New(t).Engine, lockhttp.Serialize("*", "k"))
	router.ContextWithFallback = false
	router.Use(gin.RecoveryWithWriter(nil), locks.Middleware)
	router.PUT("/", func(*gin.Context) { t.Error("the handler ran") })
	if res := do(router, "PUT", "/"); res.Code != http.StatusInternalServerError {
		t.Error(res.Code)
	}
}

// A rule finds gin's context, an error handler answers, and a request without a route passes.
func TestContextAndErrorHandler(t *testing.T) {
	eng := locktest.New(t).Engine
	router, locks := newRouter(t, eng, lockhttp.SerializeBy("PUT /", func(r *http.Request) string { return lockgin.Context(r).GetString("user") }))
	locks = locks.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, refused *reasons.Refusal) {
		w.WriteHeader(http.StatusTeapot)
	})
	router.Use(func(c *gin.Context) { c.Set("user", c.Query("user")) }, locks.Middleware)
	router.PUT("/", func(c *gin.Context) {
		wantNil(t, core.AssertHeld(c, core.Exclusive("ann")))
	})
	for target, want := range map[string]int{"/?user=ann": 200, "/": 418, "/none": 404} {
		if res := do(router, "PUT", target); res.Code != want {
			t.Errorf("%s: %d", target, res.Code)
		}
	}
}

// What is outside of the middleware sees what was sent, and what is inside what the handler wrote. A refusal ends
// the chain.
func TestAroundTheMiddleware(t *testing.T) {
	eng := locktest.New(t).Engine
	router, locks := newRouter(t, eng, lockhttp.Serialize("*", "k", core.WithFailFast()))
	var said []string
	say := func(where string) gin.HandlerFunc {
		return func(c *gin.Context) {
			before := c.Request
			c.Next()
			said = append(said, fmt.Sprint(where, " ", c.Writer.Status(), " ", c.Writer.Written(), " ", c.Writer.Size(), " ", c.Request == before))
		}
	}
	rule := locks.Middleware
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
	defer ruletest.MustRelease(t, ruletest.MustAcquire(t, eng, "k"))
	said = nil
	if res := do(router, "POST", "/body"); res.Code != http.StatusConflict || len(said) != 1 || !strings.HasPrefix(said[0], "outside 409 true") {
		t.Errorf("%d, %q", res.Code, said)
	}
}

// An error that a handler only reports is answered by a middleware outside of the rules. It is no outcome.
func TestAnErrorThatAnOuterMiddlewareAnswers(t *testing.T) {
	for name, rule := range map[string]lockhttp.Rule{
		"no rule": lockhttp.Serialize("POST /other", "k"), "serialize": lockhttp.Serialize("*", "k"), "once": lockhttp.Once("*", "k"),
	} {
		router, locks := newRouter(t, locktest.New(t).Engine, rule)
		router.Use(func(c *gin.Context) {
			if c.Next(); len(c.Errors) > 0 && !c.Writer.Written() {
				c.String(-1, "%v", c.Errors.Last()) // with the status that is set
			}
		}, locks.Middleware)
		runs := 0
		router.POST("/", func(c *gin.Context) {
			runs++
			c.Status(http.StatusPaymentRequired)
			_ = c.Error(errors.New("no funds"))
		})
		for want := 1; want <= 2; want++ {
			if res := do(router, "POST", "/"); res.Code != 402 || res.Body.String() != "no funds" || runs != want {
				t.Errorf("%s: %d %q after %d runs, want %d", name, res.Code, res.Body, runs, want)
			}
		}
	}
}

// A part that a handler wrote before the deadline of a middleware inside of the rules is not replayed.
func TestAPartBehindAnInnerTimeoutIsNotReplayed(t *testing.T) {
	router, locks := newRouter(t, locktest.New(t).Engine, lockhttp.Once("*", "once"), lockhttp.Serialize("*", "k"))
	router.Use(locks.Middleware, func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), 10*time.Millisecond)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	})
	router.POST("/", func(c *gin.Context) {
		c.String(http.StatusOK, "the beginn")
		<-c.Done()
	})
	do(router, "POST", "/")
	if res := do(router, "POST", "/"); res.Code != http.StatusConflict || !strings.Contains(res.Body.String(), reasons.ResultNotKept) {
		t.Error(res.Code, res.Body)
	}
}
