package lockecho_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

// TestKeys: which key a template makes of which request, seen by the handler.
func TestKeys(t *testing.T) {
	form, formType := ruletest.MultipartBody(t, "name", "Ada", "tag", "a", "tag", "b")
	tests := []struct {
		name     string
		template string
		target   string // default: /users/42
		body     string
		header   []string
		key      string // keys, joined by |
		status   int    // if the request is refused
		detail   string
	}{
		{name: "a constant", template: "cron", key: "cron"},
		{name: "a path parameter", template: "user:{path.id}", key: "user:42"},
		{name: "a path parameter is escaped", template: "user:{path.id}", target: "/users/a:b", key: "user:a%3Ab"},
		{name: "a path parameter in UTF-8", template: "user:{path.id}", target: "/users/%C3%A9", key: "user:é"},
		{name: "a path spelt differently is the same path", template: "user:{path.id}", target: "/users/%34%32", key: "user:42"},
		{name: "an encoded slash stays in the parameter", template: "user:{path.id}", target: "/users/a%2Fb", key: "user:a%2Fb"},
		{name: "a percent sign", template: "user:{path.id}", target: "/users/%2534", key: "user:%2534"},

		{name: "a query parameter", template: "q:{query.q}", target: "/users/42?q=x+y", key: "q:x%20y"},
		{name: "a query parameter with a dot", template: "q:{query.user.id}", target: "/users/42?user.id=7", key: "q:7"},
		{name: "several, by [*]", template: "q:{query.q[*]}", target: "/users/42?q=b&q=a&q=b", key: "q:a|q:b"},
		{name: "a query parameter missing", template: "q:{query.q}", status: 400, detail: "{query.q}: value is missing or empty"},
		{name: "a query parameter empty", template: "q:{query.q}", target: "/users/42?q=", status: 400, detail: "{query.q}"},
		{name: "a query parameter twice", template: "q:{query.q}", target: "/users/42?q=1&q=1", status: 400, detail: "more than one value"},
		{name: "none of several", template: "q:{query.q[*]}", status: 400, detail: "missing"},

		{name: "a header", template: "t:{header.x-tenant}", header: []string{"X-Tenant", "acme"}, key: "t:acme"},
		{name: "a header in two lines", template: "t:{header.x-tenant}", header: []string{"X-Tenant", "a", "X-Tenant", "b"}, status: 400, detail: "more than one value"},
		{name: "a header's lines, by [*]", template: "t:{header.X-Tenant[*]}", header: []string{"X-Tenant", "b", "X-Tenant", "a"}, key: "t:a|t:b"},
		{name: "a header missing", template: "t:{header.x-tenant}", status: 400, detail: "{header.x-tenant}"},
		{name: "the host", template: "h:{header.host|hash}", key: "-"},

		{name: "a form field", template: "f:{form.name}", body: "name=Ada&x=1", header: []string{"Content-Type", asForm}, key: "f:Ada"},
		{name: "a form field in the query, as FormValue has it", template: "f:{form.name}", target: "/users/42?name=Ada", key: "f:Ada"},
		{name: "a form field in body and query", template: "f:{form.name}", target: "/users/42?name=Ada", body: "name=Eve", header: []string{"Content-Type", asForm}, status: 400, detail: "more than one value"},
		{name: "a field of a multipart form", template: "f:{form.name}", body: form, header: []string{"Content-Type", formType}, key: "f:Ada"},
		{name: "fields of a multipart form", template: "f:{form.tag[*]}", body: form, header: []string{"Content-Type", formType}, key: "f:a|f:b"},
		{name: "a form field missing", template: "f:{form.name}", body: "x=1", header: []string{"Content-Type", asForm}, status: 400, detail: "{form.name}"},
		{name: "a form that is none", template: "f:{form.name}", body: "name=%zz", header: []string{"Content-Type", asForm}, status: 400, detail: "not a form"},
		{name: "a multipart form that is none", template: "f:{form.name}", body: "name", header: []string{"Content-Type", formType}, status: 400, detail: "not a form"},

		{name: "a JSON member", template: "u:{body.user.id}", body: `{"user":{"id":"u1"}}`, header: []string{"Content-Type", asJSON}, key: "u:u1"},
		{name: "a JSON type with suffix", template: "u:{body.id}", body: `{"id":1}`, header: []string{"Content-Type", "application/vnd.im+json; charset=utf-8"}, key: "u:1"},
		{name: "no Content-Type", template: "u:{body.id}", body: `{"id":1}`, key: "u:1"},
		{name: "another spelling of a number", template: "u:{body.id|int}", body: `{"id":5.0e1}`, header: []string{"Content-Type", asJSON}, key: "u:50"},
		{name: "a number as a string", template: "u:{body.id|int}", body: `{"id":"50"}`, key: "u:50"},
		{name: "no integer", template: "u:{body.id|int}", body: `{"id":5.5}`, status: 400, detail: "{body.id|int}: value is not an integer"},
		{name: "a name in another form and case", template: "u:{body.name|nfc|lower}", body: `{"name":"CAFE\u0301"}`, key: "u:café"},
		{name: "a large number is not rounded", template: "u:{body.id}", body: `{"id":9007199254740993}`, key: "u:9007199254740993"},
		{name: "members of a list", template: "m:{body.members[*].id}", body: `{"members":[{"id":3},{"id":1},{"id":3}]}`, key: "m:1|m:3"},
		{name: "the body is the list", template: "m:{body[*].id}", body: `[{"id":2},{"id":1}]`, key: "m:1|m:2"},
		{name: "list and path", template: "g:{path.id}:{body.m[*]}", body: `{"m":["b","a"]}`, key: "g:42:a|g:42:b"},
		{name: "two members", template: "{body.a}:{body.b}", body: `{"a":"x","b":"y"}`, key: "x:y"},
		{name: "a JSON member missing", template: "u:{body.user.id}", body: `{"user":{}}`, status: 400, detail: "{body.user.id}: value is missing or empty"},
		{name: "a JSON null", template: "u:{body.id}", body: `{"id":null}`, status: 400, detail: "missing"},
		{name: "an object for a value", template: "u:{body.user}", body: `{"user":{"id":1}}`, status: 400, detail: "{body.user}: value is an object"},
		{name: "no body", template: "u:{body.id}", status: 400, detail: "{body.id}: not JSON"},
		{name: "something behind the JSON", template: "u:{body.id}", body: `{"id":1}{"id":2}`, status: 400, detail: "not JSON"},
		{name: "two spellings of a member", template: "u:{body.user.id}", body: `{"user":{"id":1,"ID":2}}`, status: 400, detail: "different case"},
		{name: "two spellings on the way", template: "u:{body.user.id}", body: `{"USER":{"id":2},"user":{"id":1}}`, status: 400, detail: "different case"},
		{name: "two spellings in a list", template: "u:{body.m[*].id}", body: `{"m":[{"id":1},{"Id":2,"id":1}]}`, status: 400, detail: "different case"},
		{name: "two spellings elsewhere do not matter", template: "u:{body.id}", body: `{"id":1,"x":{"a":1,"A":2}}`, key: "u:1"},
		{name: "an empty element", template: "m:{body.m[*]}", body: `{"m":["a",""]}`, status: 400, detail: "missing"},
		{name: "media type that can't be read", template: "u:{body.id}", body: `{"id":1}`, header: []string{"Content-Type", ";"}, status: 415, detail: "JSON"},

		{name: "the raw body", template: "b:{body}", body: "hello", key: "b:hello"},
		{name: "the raw body's digest", template: "b:{body|hash}", body: "hello", key: "b:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
		{name: "no raw body", template: "b:{body|hash}", status: 400, detail: "{body|hash}: value is missing or empty"},
	}
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.PUT("/users/:id", func(c echo.Context) error {
				lease, ok := core.LeaseFrom(c.Request().Context())
				if !ok {
					t.Error("the handler runs without a lease")
					return nil
				}
				var keys []string
				for _, claim := range lease.Claims() {
					keys = append(keys, claim.Key)
				}
				data, _ := io.ReadAll(c.Request().Body)
				if string(data) != tt.body {
					t.Errorf("the handler reads %q, want %q", data, tt.body)
				}
				return c.String(200, strings.Join(keys, "|"))
			}, lockecho.New(eng).Serialize(tt.template))
			target := tt.target
			if target == "" {
				target = "/users/42"
			}
			a := s.Do("PUT", target, tt.body, tt.header...)
			if tt.status == 0 {
				if a.Status != 200 || (a.Body != tt.key && tt.key != "-") {
					t.Errorf("answer = %d %s, want key %s", a.Status, a.Body, tt.key)
				}
				return
			}
			var p lockecho.Problem
			if tt.status == 415 {
				p = a.Problem(t, 415, "MEDIA_TYPE")
			} else {
				p = a.Problem(t, tt.status, "KEY_INVALID")
			}
			if !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail = %q, want it to say %q", p.Detail, tt.detail)
			}
		})
	}
}

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
