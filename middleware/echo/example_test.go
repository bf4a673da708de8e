package lockecho_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// The rules are in one list, and a middleware puts them around the handlers.
func Example() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	locks, err := lockecho.New(eng, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}", core.WithMaxWait(2*time.Second)))
	if err != nil {
		panic(err)
	}

	views := 0 // read, changed and written without any lock of its own
	setStatus := func(c echo.Context) error {
		views++
		return c.String(http.StatusOK, fmt.Sprintf("user %s, change %d", c.Param("id"), views))
	}

	e := echo.New()
	e.Use(locks.Middleware)
	e.PUT("/users/:id/status", setStatus)

	fmt.Println(send(e, http.MethodPut, "/users/42/status", "away"))
	fmt.Println(send(e, http.MethodPut, "/users/42/status", "back"))
	// Output:
	// 200 user 42, change 1
	// 200 user 42, change 2
}

// A key function says what a template can't: here the authenticated user, whom
// an earlier middleware has put into the context.
func ExampleContext() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())

	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", c.Request().Header.Get("Authorization"))
			return next(c)
		}
	}
	payment := func(r *http.Request) string {
		user, _ := lockecho.Context(r).Get("user").(string)
		id := r.Header.Get("Idempotency-Key")
		if user == "" || id == "" {
			return "" // 400
		}
		return "pay:" + keytmpl.Escape(user) + ":" + keytmpl.Escape(id)
	}
	locks, err := lockecho.New(eng, lockhttp.OnceBy("POST /payments", payment))
	if err != nil {
		panic(err)
	}
	pay := func(c echo.Context) error { return c.String(http.StatusOK, "paid by "+c.Get("user").(string)) }

	e := echo.New()
	e.Use(authenticate, locks.Middleware)
	e.POST("/payments", pay)

	for _, user := range []string{"ada", "eve", ""} {
		fmt.Println(send(e, http.MethodPost, "/payments", "", "Authorization", user, "Idempotency-Key", "1"))
	}
	// Output:
	// 200 paid by ada
	// 200 paid by eve
	// 400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"The request makes no key: it is empty.","reason":"KEY_INVALID"}
}

// send makes a request and returns the status and the body of its response.
func send(h http.Handler, method, path, body string, header ...string) string {
	req, rec := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(rec, req)
	return strings.TrimSpace(fmt.Sprintf("%d %s", rec.Code, rec.Body))
}
