package recipes

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

func user(r *http.Request) string { return r.Header.Get("User") }

// answerKey answers with the key that the handler holds.
func answerKey(c *gin.Context) { c.String(http.StatusOK, key(c.Request)) }

// As the package's documentation says: gin as a whole, behind a mux that has the
// routes with rules.
func TestGinBehindAMux(t *testing.T) {
	locks := ruletest.Locks(t, ruletest.NewEngine(t, ruletest.NewStore()),
		lockhttp.Serialize("PUT /users/{id}/status", "user:{path.id}"), lockhttp.Idempotency("POST /payments", user))
	var calls atomic.Int64
	g := newGin()
	g.PUT("/users/:id/status", answerKey)
	g.GET("/users/:id", answerKey)
	g.POST("/payments", func(c *gin.Context) { c.String(http.StatusCreated, "%d", calls.Add(1)) })
	mux := http.NewServeMux()
	mux.Handle("PUT /users/{id}/status", locks.Middleware(g))
	mux.Handle("POST /payments", locks.Middleware(g))
	mux.Handle("/", g)
	s := ruletest.Serve(t, mux, false)
	if a := s.Do("PUT", "/users/42/status", ""); a.Status != 200 || a.Body != "user:42" {
		t.Errorf("with a rule: %d %s", a.Status, a.Body)
	}
	if a := s.Do("GET", "/users/42", ""); a.Status != 200 || a.Body != "nothing" {
		t.Errorf("without a rule: %d %s", a.Status, a.Body)
	}
	pay := func(body string) ruletest.Answer {
		return s.Do("POST", "/payments", body, "User", "ada", "Idempotency-Key", "k")
	}
	first, again := pay("ten"), pay("ten")
	if first.Status != 201 || first.Body != "1" || again.Status != 201 || again.Body != "1" || again.Header.Get(lockhttp.ReplayedHeader) != "true" {
		t.Errorf("a payment: %d %s, and again %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	pay("twenty").Problem(t, 422, "FINGERPRINT_MISMATCH")
	s.Do("POST", "/payments", "ten", "User", "ada").Problem(t, 400, "KEY_INVALID")
}
