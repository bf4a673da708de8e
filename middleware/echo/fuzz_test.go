package lockecho_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/keytmpl"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

// keyOf is the key that the request of c runs under.
func keyOf(c echo.Context) string {
	lease, _ := core.LeaseFrom(c.Request().Context())
	return lease.Key()
}

// FuzzBody: whatever the body, a handler that decodes it into a struct changes
// what is locked, or does not run.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"user":{"id":"u1"}}`, `{"user":{"id":9007199254740993}}`, `{"user":{"id":1,"ID":2}}`, `{"User":{"id":1}}`,
		`{"user":{"id":1},"user":{}}`, `{"user":{"id":1},"user":null}`, `{"user":{"id":1,"id":null}}`, `{"user":{"id":1e2}}`,
		`{"user":{"\u0069d":true}}`, `{"uſer":{"id":1},"user":{"id":2}}`, `{"user":[]}`, `[]`, ``, `{"user":{"id":"\ud800"}}`,
	} {
		f.Add(body)
	}
	e := echo.New()
	e.POST("/", func(c echo.Context) error {
		var message struct {
			User struct {
				ID any `json:"id"`
			} `json:"user"`
		}
		dec := json.NewDecoder(c.Request().Body)
		dec.UseNumber()
		if err := dec.Decode(&message); err != nil {
			return err // a handler's own check
		}
		var want string
		switch id := message.User.ID.(type) {
		case string:
			want = id
		case json.Number:
			want = id.String()
		case bool:
			want = map[bool]string{true: "true", false: "false"}[id]
		}
		if key := keyOf(c); key != "user:"+keytmpl.Escape(want) {
			f.Errorf("the handler sees %q under the key %q", want, key)
		}
		return nil
	}, lockecho.New(ruletest.NewEngine(f, ruletest.NewStore())).Serialize("user:{body.user.id}"))
	f.Fuzz(func(t *testing.T, body string) {
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if rec.Code == http.StatusInternalServerError && strings.Contains(rec.Body.String(), "INTERNAL") {
			t.Errorf("%q: %s", body, rec.Body)
		}
	})
}

// FuzzValues: a value of the request becomes its own key, or the request is
// refused.
func FuzzValues(f *testing.F) {
	for _, value := range []string{"a", "", "a:b", "{x}", "\x00", "%", "\xff", "é", strings.Repeat("x", 600), "a b", "%34"} {
		f.Add(value)
	}
	e := echo.New()
	handler := func(c echo.Context) error {
		want := "q:" + keytmpl.Escape(c.QueryParam("v")) + ":" + keytmpl.Escape(c.Request().Header.Get("V"))
		if key := keyOf(c); key != want {
			f.Errorf("key = %q, want %q", key, want)
		}
		return nil
	}
	e.GET("/", handler, lockecho.New(ruletest.NewEngine(f, ruletest.NewStore())).Serialize("q:{query.v}:{header.v}"))
	f.Fuzz(func(t *testing.T, value string) {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		q := req.URL.Query()
		q.Set("v", value)
		req.URL.RawQuery = q.Encode()
		req.Header["V"] = []string{value}
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, req)
		if rec.Code != 200 && rec.Code != 400 {
			t.Errorf("%q: %d %s", value, rec.Code, rec.Body)
		}
	})
}

// FuzzReplay: a response comes back as it went, or is not on record.
func FuzzReplay(f *testing.F) {
	f.Add(200, "text/plain", []byte("body"))
	f.Add(404, "a\r\nX-B: c", []byte("\r\n\r\n"))
	f.Add(204, "", []byte{})
	f.Add(299, " \x00é", []byte{0xff})
	f.Fuzz(func(t *testing.T, status int, value string, body []byte) {
		if status < 200 || status > 400 || status == 204 || status == 304 {
			t.Skip("a status that is no response, is not stored, or has no body")
		}
		e := echo.New()
		e.POST("/", func(c echo.Context) error {
			c.Response().Header().Set("Location", value)
			return c.Blob(status, "application/octet-stream", body)
		}, lockecho.New(ruletest.NewEngine(t, ruletest.NewStore())).Once("m"))
		var answers [2]*httptest.ResponseRecorder
		for i := range answers {
			answers[i] = httptest.NewRecorder()
			e.ServeHTTP(answers[i], httptest.NewRequest(http.MethodPost, "/", nil))
		}
		first, again := answers[0], answers[1]
		if again.Code != first.Code || again.Body.String() != first.Body.String() || again.Header().Get("X-B") != "" {
			t.Errorf("first %d %q, then %d %q %v", first.Code, first.Body, again.Code, again.Body, again.Header())
		}
	})
}
