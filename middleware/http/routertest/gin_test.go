package routertest

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func newGin() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	return gin.New()
}

// As the package's documentation says: gin as a whole, behind a mux that has the
// routes with rules.
func TestGinBehindAMux(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	var calls atomic.Int64
	g := newGin()
	g.PUT("/users/:id/status", func(c *gin.Context) { keys(c.Writer, c.Request) })
	g.GET("/users/:id", func(c *gin.Context) { keys(c.Writer, c.Request) })
	g.POST("/payments", func(c *gin.Context) { c.String(http.StatusCreated, "%d", calls.Add(1)) })
	mux := http.NewServeMux()
	mux.Handle("PUT /users/{id}/status", locks.Serialize("user:{path.id}")(g))
	mux.Handle("POST /payments", locks.Idempotency(user)(g))
	mux.Handle("/", g)
	checkGin(t, ruletest.Serve(t, mux, false))
}

// ginRule is a rule as a middleware of gin's, for who wants it there: behind the
// authentication of a group, say.
func ginRule(rule func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer, entered := c.Writer, false
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		c.Request.Pattern = c.FullPath()
		rule(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered = true
			c.Request, c.Writer = r, &ginWriter{ResponseWriter: outer, to: w}
			defer func() { c.Writer = outer }()
			c.Next()
		})).ServeHTTP(outer, c.Request)
		if !entered {
			c.Abort()
		}
	}
}

// ginWriter is gin's, for a response that the rule keeps back.
type ginWriter struct {
	gin.ResponseWriter
	to     http.ResponseWriter
	status int
	size   int
}

func (w *ginWriter) WriteHeader(code int) { w.status = code }

func (w *ginWriter) WriteHeaderNow() { w.to.WriteHeader(w.Status()) }

func (w *ginWriter) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.to.Write(p)
	w.size += n
	return n, err
}

func (w *ginWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }
func (w *ginWriter) Status() int                       { return max(w.status, http.StatusOK) }
func (w *ginWriter) Size() int                         { return w.size }
func (w *ginWriter) Written() bool                     { return w.size > 0 }
func (w *ginWriter) Flush()                            { w.to.(http.Flusher).Flush() }
func (w *ginWriter) Unwrap() http.ResponseWriter       { return w.to }

func (w *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.to.(http.Hijacker).Hijack()
}

func TestRuleInGin(t *testing.T) {
	locks := lockhttp.New(ruletest.NewEngine(t, ruletest.NewStore()))
	var calls atomic.Int64
	g := newGin()
	g.PUT("/users/:id/status", ginRule(locks.Serialize("user:{path.id}")), func(c *gin.Context) { keys(c.Writer, c.Request) })
	g.GET("/users/:id", func(c *gin.Context) { keys(c.Writer, c.Request) })
	g.POST("/payments", ginRule(locks.Idempotency(user)), func(c *gin.Context) { c.String(http.StatusCreated, "%d", calls.Add(1)) })
	checkGin(t, ruletest.Serve(t, g, false))
}

func checkGin(t *testing.T, s *ruletest.Site) {
	t.Helper()
	if a := s.Do("PUT", "/users/42/status", ""); a.Status != 200 || a.Body != "user:42" {
		t.Errorf("with a rule: %d %s", a.Status, a.Body)
	}
	if a := s.Do("GET", "/users/42", ""); a.Status != 200 || a.Body != "unlocked" {
		t.Errorf("without a rule: %d %s", a.Status, a.Body)
	}
	pay := func(body string) ruletest.Answer {
		return s.Do("POST", "/payments", body, "User", "ada", "Idempotency-Key", "k")
	}
	first, again := pay("ten"), pay("ten")
	if first.Status != 201 || first.Body != "1" || again.Status != 201 || again.Body != "1" || again.Header.Get(replayed) != "true" {
		t.Errorf("a payment: %d %s, and again %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	pay("twenty").Problem(t, 422, "FINGERPRINT_MISMATCH")
	s.Do("POST", "/payments", "ten", "User", "ada").Problem(t, 400, "KEY_INVALID")
}

// The response that gin itself sends after a handler that wrote nothing goes out as well.
func TestGinsStatusWithoutABody(t *testing.T) {
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	g := newGin()
	g.PUT("/", ginRule(lockhttp.New(eng).Once("k")), func(c *gin.Context) {
		if err := core.AssertHeld(c.Request.Context(), core.Exclusive("k")); err != nil {
			t.Error(err)
		}
		c.AbortWithStatus(http.StatusNoContent)
	})
	s := ruletest.Serve(t, g, false)
	for i := range 2 {
		if a := s.Do("PUT", "/", ""); a.Status != http.StatusNoContent || (a.Header.Get(replayed) == "true") != (i == 1) {
			t.Errorf("answer %d = %d, replayed %q", i, a.Status, a.Header.Get(replayed))
		}
	}
}
