package lockhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
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

	server := httptest.NewServer(mux)
	defer server.Close()
	fmt.Println(send(server.URL+"/users/42/status", http.MethodPut, "away"))
	fmt.Println(send(server.URL+"/users/42/status", http.MethodPut, "back"))
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

	server := httptest.NewServer(mux)
	defer server.Close()
	post := func(amount string, header ...string) {
		fmt.Println(send(server.URL+"/payments", http.MethodPost, amount, header...))
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
		lockhttp.Once("POST /messages", "post:{body.id}"),
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
	// POST /messages: once post:{body.id}
	// DELETE /users/{id}: none
	// GET /health: none
	// forgotten: [DELETE /users/{id}]
}

// An ErrorHandler answers in the application's own form.
func ExampleLocks_WithErrorHandler() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())

	locks, err := lockhttp.New(eng, lockhttp.Serialize("PUT /users/{id}", "user:{path.id}", core.WithFailFast()))
	if err != nil {
		panic(err)
	}
	locks = locks.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err *reasons.Refusal) {
		if errors.Is(err, core.ErrHeld) {
			http.Error(w, "somebody else is changing this user", http.StatusConflict)
			return
		}
		lockhttp.DefaultErrorHandler(w, r, err)
	})
	mux := http.NewServeMux()
	mux.Handle("PUT /users/{id}", locks.Middleware(http.NotFoundHandler()))

	server := httptest.NewServer(mux)
	defer server.Close()
	lease, err := eng.Acquire(context.Background(), "user:42") // somebody else
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())
	fmt.Println(send(server.URL+"/users/42", http.MethodPut, ""))
	// Output:
	// 409 somebody else is changing this user
}

// send makes a request and returns the status and the body of its response.
func send(url, method, body string, header ...string) string {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, text))
}
