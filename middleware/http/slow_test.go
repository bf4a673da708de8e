package lockhttp_test

import (
	"net/http"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestSlowClients keep no key: whatever the body and the answer look like.
func TestSlowClients(t *testing.T) {
	quiet(t)
	ruletest.Shared(t, face)
}

func face(t testing.TB, r ruletest.Route) *ruletest.Site {
	t.Helper()
	if r.Template == "" {
		r.Template = "k:{path.id}"
	}
	var rule middleware
	var err error
	if r.Once {
		rule, err = lockhttp.OnceConfig{Engine: r.Engine, Template: r.Template, Options: r.Options, BodyLimit: r.BodyLimit}.ToMiddleware()
	} else {
		rule, err = lockhttp.SerializeConfig{Engine: r.Engine, Template: r.Template, Options: r.Options, BodyLimit: r.BodyLimit, StreamBody: r.StreamBody}.ToMiddleware()
	}
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /{id}", rule(r.Handler))
	var with []func(*http.Server)
	if r.Server != nil {
		with = append(with, r.Server)
	}
	return ruletest.Serve(t, mux, r.HTTP2, with...)
}
