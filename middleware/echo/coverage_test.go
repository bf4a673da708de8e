package lockecho_test

import (
	"slices"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

func TestCoverage(t *testing.T) {
	locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
	byPath := func(c echo.Context) string { return c.Path() }
	e := echo.New()
	told := 0
	e.OnAddRouteHandler = func(string, echo.Route, echo.HandlerFunc, []echo.MiddlewareFunc) { told++ }
	e.GET("/before", ok, locks.Serialize("unseen"))
	told = 0
	cov := lockecho.Watch(e)

	plain := func(next echo.HandlerFunc) echo.HandlerFunc {
		if next == nil {
			t.Error("a foreign middleware was called for its rule")
		}
		return next
	}
	hidden := func(next echo.HandlerFunc) echo.HandlerFunc { return locks.Serialize("hidden")(plain(next)) }
	e.PUT("/users/:id", ok, plain, locks.Serialize("user:{path.id}"))
	e.POST("/messages", ok, locks.Once("message:{body.id}"), locks.SerializeBy(byPath))
	e.GET("/users/:id", ok)
	e.PUT("/hidden", ok, hidden)
	group := e.Group("/groups", plain, locks.SerializeBy(byPath))
	group.PUT("/:id", ok, locks.OnceBy(byPath))
	group.GET("/:id", ok)
	e.Host("im.example").PUT("/users/:id", ok, locks.Serialize("host:{path.id}"))
	e.GET("/again", ok)
	e.GET("/again", ok, locks.Serialize("again"))
	if told == 0 {
		t.Error("who listened to new routes before is not told any more")
	}
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, c := range cov.Coverage() {
			got = append(got, c.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("Coverage() =\n%q, want\n%q", got, want)
		}
	}
	check(
		"GET /before: none",
		"PUT /users/:id: serialize user:{path.id}",
		"POST /messages: once message:{body.id}, serialize func",
		"GET /users/:id: none",
		"PUT /hidden: none",
		"PUT /groups/:id: serialize func, once func",
		"GET /groups/:id: serialize func",
		"PUT im.example/users/:id: serialize host:{path.id}",
		"GET /again: serialize again",
	)
	if left := core.Uncovered(cov.Coverage(), "GET /before", "PUT /hidden"); !slices.Equal(left, []string{"GET /users/:id"}) {
		t.Errorf("Uncovered() = %v", left)
	}

	cov.Use(plain, locks.Idempotency(lockecho.AnyCaller))
	check(
		"GET /before: none",
		"PUT /users/:id: serialize user:{path.id}",
		"POST /messages: once {header.idempotency-key}, once message:{body.id}, serialize func",
		"GET /users/:id: none",
		"PUT /hidden: none",
		"PUT /groups/:id: serialize func, once func",
		"GET /groups/:id: serialize func",
		"PUT im.example/users/:id: serialize host:{path.id}",
		"GET /again: serialize again",
	)
	s := ruletest.Serve(t, e, false)
	s.Do("POST", "/messages", `{"id":1}`).Problem(t, 400, "KEY_INVALID") // by what Use added
	if a := s.Do("PUT", "/users/1", ""); a.Status != 200 {
		t.Errorf("answer = %+v", a)
	}
}

// TestARuleAroundNothing fails its requests and does not panic.
func TestARuleAroundNothing(t *testing.T) {
	e := echo.New()
	h := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Serialize("a")(nil)
	if err := h(e.NewContext(nil, nil)); err == nil {
		t.Error("no error")
	}
}
