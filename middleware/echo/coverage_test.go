package lockecho_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core/coverage"
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
	if left := coverage.Uncovered(cov.Coverage(), "GET /before", "PUT /hidden"); !slices.Equal(left, []string{"GET /users/:id"}) {
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

// TestCheck finds the templates that a route can't fill, and no others.
func TestCheck(t *testing.T) {
	locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
	some := lockecho.SerializeWithConfig(lockecho.SerializeConfig{
		Engine: ruletest.NewEngine(t, ruletest.NewStore()), Template: "user:{path.uid}",
		Skipper: func(c echo.Context) bool { return c.Param("uid") == "" },
	})
	e := echo.New()
	cov := lockecho.Watch(e)
	e.PUT("/users/:id", ok, locks.Serialize("user:{path.id}"))
	e.POST(`/users/:id/posts\:publish/:post-id`, ok, locks.Serialize("user:{path.id}:{path.post-id}"), some)
	e.Group("/groups/:group", locks.Serialize("group:{path.group}")).PUT("/members/:id", ok)
	e.GET("/files/*", ok, locks.SerializeBy(func(echo.Context) string { return "k" }))
	e.PUT("/all/:members", ok, locks.Serialize("group:members"))
	if err := cov.Check(); err != nil {
		t.Errorf("routes that are well: %v", err)
	}

	e.DELETE("/users/:id", ok, locks.Serialize("user:{path.uid}:{path.id}:{path.tenant}:{path.uid}"))
	e.POST(`/posts\:publish`, ok, locks.Serialize("post:{path.publish}"))
	e.DELETE("/users", ok, locks.Serialize("a:{query.a}"), locks.Once("b:{path.b}"))
	e.PUT("/cities/:id", ok, locks.Serialize("city::id"))
	ruletest.CheckJoined(t, cov.Check(),
		[]string{`"DELETE /users/:id"`, `"user:{path.uid}:{path.id}:{path.tenant}:{path.uid}"`, " {path.uid}, {path.tenant}:", "it has id"},
		[]string{`"POST /posts\\:publish"`, `"post:{path.publish}"`, " {path.publish}:", "none"},
		[]string{`"DELETE /users"`, `"b:{path.b}"`, " {path.b}:", "none"},
		[]string{`"PUT /cities/:id"`, `"city::id"`, "the same key", "{path.id}"},
	)
	if left := coverage.Uncovered(cov.Coverage(), "DELETE /users", "GET /files/*"); !slices.Equal(left, []string{"DELETE /users/:id", `POST /posts\:publish`, "DELETE /users", "PUT /cities/:id"}) {
		t.Errorf("Uncovered() = %v, want those whose rule can't work", left)
	}

	// What is checked is what the router does.
	s := ruletest.Serve(t, e, false)
	e.Logger.SetOutput(s.Log)
	s.Do("DELETE", "/users/1", "").Problem(t, 500, "INTERNAL")
	if a := s.Do("POST", "/users/1/posts:publish/2", ""); a.Status != 200 {
		t.Errorf("answer = %+v", a)
	}
	e = echo.New()
	cov = lockecho.Watch(e)
	e.GET("/users/:uid", ok)
	e.GET("/users", ok)
	cov.Use(locks.Serialize("user:{path.uid}"))
	if err := cov.Check(); err == nil || !strings.Contains(err.Error(), `"GET /users"`) || strings.Contains(err.Error(), ":uid\"") {
		t.Errorf("a rule in front of all routes: %v", err)
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
