package lockhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
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
	locks, err := lockhttp.New(eng,
		lockhttp.Serialize("PUT /users/{id}/status", "user:status:{path.id}", core.WithMaxWait(2*time.Second)))
	if err != nil {
		panic(err)
	}

	views := 0 // read, changed and written without any lock of its own
	setStatus := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		views++
		fmt.Fprintf(w, "user %s, change %d", r.PathValue("id"), views)
	})

	mux := http.NewServeMux()
	mux.Handle("PUT /users/{id}/status", locks.Middleware(setStatus))

	fmt.Println(send(mux, http.MethodPut, "/users/42/status", "away"))
	fmt.Println(send(mux, http.MethodPut, "/users/42/status", "back"))
	// Output:
	// 200 user 42, change 1
	// 200 user 42, change 2
}

// A client that got no answer sends its payment again, with the same key.
func ExampleIdempotency() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	// The caller. In this example, a proxy authenticates callers and sets a header.
	account := func(r *http.Request) string { return r.Header.Get("X-Account") }
	locks, err := lockhttp.New(eng, lockhttp.Idempotency("POST /payments", account, core.WithRetention(24*time.Hour)))
	if err != nil {
		panic(err)
	}

	payments := 0
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payments++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d", payments)
	})

	mux := http.NewServeMux()
	mux.Handle("POST /payments", locks.Middleware(pay))

	post := func(amount string, header ...string) {
		fmt.Println(send(mux, http.MethodPost, "/payments", amount, header...))
	}
	post("10 EUR", "X-Account", "ada", "Idempotency-Key", `"8e03978e"`)
	post("10 EUR", "X-Account", "ada", "Idempotency-Key", `"8e03978e"`)
	post("20 EUR", "X-Account", "ada", "Idempotency-Key", `"8e03978e"`)
	post("10 EUR", "X-Account", "eve", "Idempotency-Key", `"8e03978e"`)
	post("10 EUR", "X-Account", "ada")
	// Output:
	// 201 payment 1
	// 201 payment 1
	// 422 {"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"The same id was sent before with other content.","reason":"FINGERPRINT_MISMATCH"}
	// 201 payment 2
	// 400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"The header Idempotency-Key is missing.","reason":"KEY_INVALID"}
}

// A test can list what runs without a rule, and fail if that is not meant.
func ExampleLocks_Routes() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	locks, err := lockhttp.New(eng,
		lockhttp.Serialize("PUT /users/{id}/status", "user:status:{path.id}"),
		lockhttp.Once("POST /messages", "message:{body.id}"),
	)
	if err != nil {
		panic(err)
	}
	handler := http.NotFoundHandler()

	routes := locks.Routes(http.NewServeMux())
	routes.Handle("PUT /users/{id}/status", handler)
	routes.Handle("POST /messages", handler)
	routes.Handle("DELETE /users/{id}", handler)
	routes.Handle("GET /health", handler)

	for _, route := range routes.Coverage() {
		fmt.Println(route)
	}
	fmt.Println("forgotten:", coverage.Uncovered(routes.Coverage(), "GET /health"))
	// Output:
	// PUT /users/{id}/status: serialize user:status:{path.id}
	// POST /messages: once message:{body.id}
	// DELETE /users/{id}: none
	// GET /health: none
	// forgotten: [DELETE /users/{id}]
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
