package lockecho_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

// TestTheHandlerReadsTheBodyAgain: by whatever way, behind a rule that has read
// it.
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
	byBind := func(l *lockecho.Locks) echo.MiddlewareFunc {
		return l.SerializeBy(func(c echo.Context) string {
			var m message
			if c.Bind(&m) != nil {
				return ""
			}
			return fmt.Sprint("m:", m.ID)
		})
	}
	byPart := func(l *lockecho.Locks) echo.MiddlewareFunc {
		return l.SerializeBy(func(c echo.Context) string {
			part := make([]byte, 3)
			_, _ = io.ReadFull(c.Request().Body, part)
			return "part:" + fmt.Sprintf("%x", part)
		})
	}
	form, formType := ruletest.MultipartBody(t, "id", "7")
	for _, tt := range []struct {
		name    string
		rules   []func(*lockecho.Locks) echo.MiddlewareFunc
		body    string
		as      string
		handler echo.HandlerFunc
	}{
		{"JSON", rules(template("{body.id}")), `{"id":7}`, asJSON, bind},
		{"a form, bound", rules(template("{form.id}")), "id=7", asForm, bind},
		{"a form's value", rules(template("{form.id}")), "id=7", asForm, formValue},
		{"a multipart form, bound", rules(template("{form.id}")), form, formType, bind},
		{"a multipart form's value", rules(template("{form.id}")), form, formType, formValue},
		{"a digest", rules(template("{body|hash}")), `{"id":7}`, asJSON, bind},
		{"Once", rules(onceTemplate("{path.id}")), `{"id":7}`, asJSON, bind},
		{"a key function that binds", rules(byBind), `{"id":7}`, asJSON, bind},
		{"a key function that binds a form", rules(byBind), "id=7", asForm, formValue},
		{"a key function that reads a part", rules(byPart), `{"id":7}`, asJSON, bind},
		{"two rules", rules(onceTemplate("o:{path.id}:{body.id}"), template("s:{body.id}")), `{"id":7}`, asJSON, bind},
		{"two rules, the first reads a part", rules(byPart, onceTemplate("o:{path.id}:{body.id}")), `{"id":7}`, asJSON, bind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			var chain []echo.MiddlewareFunc
			locks := lockecho.New(ruletest.NewEngine(t, ruletest.NewStore()))
			for _, rule := range tt.rules {
				chain = append(chain, rule(locks))
			}
			s.POST("/:id", tt.handler, chain...)
			if a := s.Do("POST", "/1", tt.body, "Content-Type", tt.as); a.Status != 200 || a.Body != "7" {
				t.Errorf("answer = %d %s, want 7", a.Status, a.Body)
			}
			// Without a length, as a stream is sent.
			req := s.NewRequest("POST", "/2", tt.body, "Content-Type", tt.as)
			req.ContentLength = -1
			if a, err := s.Send(req); err != nil || a.Status != 200 || a.Body != "7" {
				t.Errorf("chunked: answer = %d %s, %v, want 7", a.Status, a.Body, err)
			}
		})
	}
}

func rules(r ...func(*lockecho.Locks) echo.MiddlewareFunc) []func(*lockecho.Locks) echo.MiddlewareFunc {
	return r
}

func template(s string) func(*lockecho.Locks) echo.MiddlewareFunc {
	return func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Serialize(s) }
}

func onceTemplate(s string) func(*lockecho.Locks) echo.MiddlewareFunc {
	return func(l *lockecho.Locks) echo.MiddlewareFunc { return l.Once(s) }
}

// TestBodyLimit is for all bodies, but those that the handler reads as they come.
func TestBodyLimit(t *testing.T) {
	length := func(c echo.Context) error {
		n, err := io.Copy(io.Discard, c.Request().Body)
		if err != nil {
			return err
		}
		return c.String(200, fmt.Sprint(n))
	}
	config := lockecho.SerializeConfig{Engine: ruletest.NewEngine(t, ruletest.NewStore()), BodyLimit: 10}
	byHash, byPath, byFunc := config, config, config
	byHash.Template, byPath.Template = "{body|hash}", "{path.id}"
	byFunc.Key = func(c echo.Context) string {
		_, _ = io.ReadAll(c.Request().Body) // and nobody looks at the error
		return "k"
	}
	byPart := config
	byPart.Key = func(c echo.Context) string {
		_, _ = c.Request().Body.Read(make([]byte, 5))
		return "k"
	}
	s := newSite(t)
	streamed := byPart
	streamed.StreamBody = true
	s.POST("/streamed/:id", length, lockecho.SerializeWithConfig(streamed))
	s.POST("/part/:id", length, lockecho.SerializeWithConfig(byPart))
	s.POST("/hash/:id", length, lockecho.SerializeWithConfig(byHash))
	s.POST("/path/:id", length, lockecho.SerializeWithConfig(byPath))
	s.POST("/func/:id", length, lockecho.SerializeWithConfig(byFunc))
	s.POST("/once/:id", length, lockecho.OnceWithConfig(lockecho.OnceConfig{Engine: config.Engine, Template: "once:{path.id}", BodyLimit: 10}))
	s.POST("/two/:id", length, lockecho.New(config.Engine).Serialize("two:{body|hash}"), lockecho.SerializeWithConfig(byHash))
	for path, limited := range map[string]bool{"/hash/1": true, "/func/1": true, "/once/1": true, "/two/1": true, "/path/1": true, "/part/1": true, "/streamed/1": false} {
		for _, size := range []int{10, 11, 1000} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes, chunked %v", path, size, chunked), func(t *testing.T) {
					req := s.NewRequest("POST", path+fmt.Sprintf("-%d-%v", size, chunked), strings.Repeat("x", size))
					if chunked {
						req.ContentLength = -1
					}
					a, err := s.Send(req)
					if err != nil {
						t.Fatal(err)
					}
					if limited && size > 10 {
						a.Problem(t, http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE")
					} else if a.Status != 200 || a.Body != fmt.Sprint(size) {
						t.Errorf("answer = %d %s", a.Status, a.Body)
					}
				})
			}
		}
	}
}
