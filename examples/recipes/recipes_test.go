package recipes

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/labstack/echo/v5"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

var must = checktest.Must

// do sends a request to h.
func do(t *testing.T, h http.Handler, method, target, body string, header ...string) (int, string) {
	t.Helper()
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	text, _ := io.ReadAll(res.Result().Body)
	return res.Code, string(text)
}

// key is the key that the handler of r holds.
func key(r *http.Request) string {
	if l, ok := core.LeaseFrom(r.Context()); ok {
		return l.Key()
	}
	return "nothing"
}

func TestEcho5(t *testing.T) {
	locks, err := lockhttp.New(locktest.New(t).Engine,
		lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"),
		lockhttp.Idempotency("POST /payments", func(*http.Request) string { return "ann" }))
	must(t, err)
	e := echo.New()
	setStatusRoute(e, locks, func(c *echo.Context) error { return c.String(http.StatusOK, key(c.Request())) })
	var n atomic.Int64
	e.POST("/payments", func(c *echo.Context) error {
		if n.Add(1); c.Request().Header.Get("X-Fail") != "" {
			return echo.ErrNotFound
		}
		return c.String(http.StatusCreated, "paid")
	})
	h := paymentRoute(e, locks)
	if code, text := do(t, h, "PUT", "/users/42/status", ""); code != 200 || text != "user:status:42" {
		t.Error(code, text)
	}
	for _, want := range []struct {
		id, fail, text string
		code           int
	}{{"1", "", "paid", 201}, {"2", "yes", "Not Found", 404}} {
		for range 2 {
			if code, text := do(t, h, "POST", "/payments", "{}", "Idempotency-Key", want.id, "X-Fail", want.fail); code != want.code || !strings.Contains(text, want.text) {
				t.Error(code, text)
			}
		}
	}
	if n.Load() != 2 {
		t.Errorf("%d payments", n.Load())
	}
}

func TestWatermill(t *testing.T) {
	h, err := inTurn(lockfunc.New(locktest.New(t).Engine), "orders", func(m *message.Message) string { return "order:" + m.Metadata.Get("order") },
		func(m *message.Message) ([]*message.Message, error) {
			return nil, core.AssertHeld(m.Context(), core.Exclusive("order:7"))
		})
	must(t, err)
	m := message.NewMessage("1", nil)
	m.Metadata.Set("order", "7")
	if _, err := h(m); err != nil {
		t.Error(err)
	}
}
