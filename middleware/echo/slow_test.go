package lockecho_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

// TestSlowClients keep no key: whatever the body and the answer look like.
func TestSlowClients(t *testing.T) { ruletest.Shared(t, face) }

func face(t testing.TB, r ruletest.Route) *ruletest.Site {
	t.Helper()
	if r.Template == "" {
		r.Template = "k:{path.id}"
	}
	var rule echo.MiddlewareFunc
	var err error
	if r.Once {
		rule, err = lockecho.OnceConfig{Engine: r.Engine, Template: r.Template, Options: r.Options, BodyLimit: r.BodyLimit}.ToMiddleware()
	} else {
		rule, err = lockecho.SerializeConfig{Engine: r.Engine, Template: r.Template, Options: r.Options, BodyLimit: r.BodyLimit, StreamBody: r.StreamBody}.ToMiddleware()
	}
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.Logger.SetOutput(new(ruletest.Buffer))
	e.POST("/:id", echo.WrapHandler(r.Handler), rule)
	var with []func(*http.Server)
	if r.Server != nil {
		with = append(with, r.Server)
	}
	return ruletest.Serve(t, e, r.HTTP2, with...)
}
