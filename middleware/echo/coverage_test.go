package lockecho_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func TestNewRefuses(t *testing.T) {
	locks, err := lockecho.New(nil, lockhttp.Serialize("*", "{cookie.a}"))
	if locks != nil || !errors.Is(err, core.ErrInvalidOption) || !strings.HasPrefix(err.Error(), "lockhttp: ") || !strings.Contains(err.Error(), "{cookie.a}") {
		t.Error(err)
	}
}

func TestCoverageAndCheck(t *testing.T) {
	locks, err := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("PUT /users/:id", "user:{path.id}"),
		lockhttp.SerializeBy("/groups/:id", func(r *http.Request) string { return lockecho.Context(r).Path() }),
		lockhttp.OnceBy("PUT /groups/:id", func(r *http.Request) string { return "once:" + r.Pattern }),
		lockhttp.Serialize(`POST /users/:id/posts\:publish/:post`, "post:{path.id}:{path.post}"),
		lockhttp.Serialize("PUT /files/*", "file:{header.x}"),
	)
	must(t, err)
	e := echo.New()
	e.Use(locks.Middleware)
	e.PUT("/users/:id", ok)
	e.GET("/users/:id", ok)
	group := e.Group("/groups", func(next echo.HandlerFunc) echo.HandlerFunc { return next })
	group.PUT("/:id", ok)
	group.GET("/:id", ok)
	e.POST(`/users/:id/posts\:publish/:post`, ok)
	e.Host("im.example").PUT("/files/*", ok)
	var got []string
	for _, c := range locks.Coverage(e) {
		got = append(got, c.String())
	}
	want := []string{
		"GET /groups/:id: serialize func",
		"GET /users/:id: none",
		`POST /users/:id/posts\:publish/:post: serialize post:{path.id}:{path.post}`,
		"PUT /files/*: serialize file:{header.x}",
		"PUT /groups/:id: serialize func, once func",
		"PUT /users/:id: serialize user:{path.id}",
	}
	check(t, slices.Equal(got, want), "Coverage() =\n%q, want\n%q", got, want)
	must(t, locks.Check(e))
	left := coverage.Uncovered(locks.Coverage(e))
	check(t, slices.Equal(left, []string{"GET /users/:id"}), "Uncovered() = %v", left)
	if err := locks.Check(echo.New()); err == nil || !strings.Contains(err.Error(), "PUT /users/:id") {
		t.Errorf("an Echo without these routes: %v", err)
	}

	// What is checked is what the router does.
	s := ruletest.Serve(t, e, false)
	for target, method := range map[string]string{"/users/1": "PUT", "/users/2": "GET", "/groups/1": "PUT", "/users/1/posts:publish/2": "POST"} {
		a := s.Do(method, target, "")
		check(t, a.Status == 200 && a.Body == "done", "%s: %+v", target, a)
	}
	if a := s.Do("PUT", "/none", ""); a.Status != 404 {
		t.Errorf("a path without a route: %+v", a)
	}
}

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

// TestTheHandlerReadsTheBodyAgain: by whatever way, behind a rule that has read it.
func TestTheHandlerReadsTheBodyAgain(t *testing.T) {
	type message struct {
		ID int `json:"id" form:"id"`
	}
	bind := func(c echo.Context) error {
		var m message
		if err := c.Bind(&m); err != nil {
			return err
		}
		return c.String(200, fmt.Sprint(m.ID))
	}
	formValue := func(c echo.Context) error { return c.String(200, c.FormValue("id")) }
	byBind := lockhttp.SerializeBy("*", func(r *http.Request) string {
		var m message
		if lockecho.Context(r).Bind(&m) != nil {
			return ""
		}
		return fmt.Sprint("m:", m.ID)
	})
	form, formType := ruletest.MultipartBody(t, "id", "7")
	for _, tt := range []struct {
		name    string
		rules   []lockhttp.Rule
		body    string
		as      string
		handler echo.HandlerFunc
	}{
		{"a multipart form, bound", []lockhttp.Rule{lockhttp.Serialize("*", "{form.id}")}, form, formType, bind},
		{"a key function that binds", []lockhttp.Rule{byBind}, `{"id":7}`, asJSON, bind},
		{"a key function that binds a form", []lockhttp.Rule{byBind}, "id=7", asForm, formValue},
		{"two rules", []lockhttp.Rule{lockhttp.Once("*", "o:{path.id}:{body.id}"), lockhttp.Serialize("*", "s:{body.id}")}, `{"id":7}`, asJSON, bind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.POST("/:id", tt.handler, rule(t, ruletest.NewEngine(t, ruletest.NewStore()), tt.rules...))
			a := s.Do("POST", "/1", tt.body, "Content-Type", tt.as)
			check(t, a.Status == 200 && a.Body == "7", "answer = %d %s, want 7", a.Status, a.Body)
			// Without a length, as a stream is sent.
			req := s.NewRequest("POST", "/2", tt.body, "Content-Type", tt.as)
			req.ContentLength = -1
			if a, err := s.Send(req); err != nil || a.Status != 200 || a.Body != "7" {
				t.Errorf("chunked: answer = %d %s, %v, want 7", a.Status, a.Body, err)
			}
		})
	}
}
