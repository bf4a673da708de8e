package lockgin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockgin "github.com/keyturn/keyturn/middleware/gin"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestSuite runs what lockhttp and lockecho do behind gin.
func TestSuite(t *testing.T) { ruletest.Run(t, face()) }

// TestSuiteWithRecovery does so where gin recovers panics, and with it those that break off a response.
func TestSuiteWithRecovery(t *testing.T) {
	ruletest.LossBreaksWhatWasSent(t, face(gin.RecoveryWithWriter(nil)).WithDefaults())
	ruletest.CutStreams(t, face(gin.RecoveryWithWriter(nil)).WithDefaults())
}

func TestNoWayAround(t *testing.T) {
	ruletest.NoWayAround(t, "/users/:id", func(eng *core.Engine, h http.Handler, rules ...lockhttp.Rule) http.Handler {
		router, locks := newRouter(t, eng, rules...)
		router.RemoveExtraSlash = true
		router.PUT("/users/:id", locks.Middleware, gin.WrapH(h))
		return router
	})
}

func face(outer ...gin.HandlerFunc) ruletest.Face {
	return func(t testing.TB, r ruletest.Route) *ruletest.Site {
		t.Helper()
		router := gin.New()
		router.ContextWithFallback = true
		router.UseRawPath = true // a slash within a value, too
		router.Use(outer...)
		locks, err := lockgin.New(r.Engine, r.Rule())
		must(t, err)
		handler := func(c *gin.Context) { r.Handler(eager{c.Writer}, c.Request) }
		handlers := []gin.HandlerFunc{locks.Middleware, handler}
		if r.Outer != nil {
			handlers = append([]gin.HandlerFunc{lockgin.Around(r.Outer)}, handlers...)
		}
		router.Any(strings.NewReplacer("{", ":", "}", "").Replace(r.Pattern), handlers...)
		s := r.Serve(t, router)
		ruletest.LogTo(t, s.Log)
		return s
	}
}

// eager is gin's writer as net/http's are, for the suite's handlers.
type eager struct{ gin.ResponseWriter }

func (w eager) WriteHeader(code int) {
	if code <= 0 { // which gin leaves out
		w.ResponseWriter.(interface{ Unwrap() http.ResponseWriter }).Unwrap().WriteHeader(code)
	}
	w.ResponseWriter.WriteHeader(code)
	w.WriteHeaderNow()
}

func (w eager) Unwrap() http.ResponseWriter { return w.ResponseWriter }
