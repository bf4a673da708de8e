package lockecho_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
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
