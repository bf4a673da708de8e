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

// The lock is one line around the handler.
func Example() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	locks := lockhttp.New(eng)

	views := 0 // read, changed and written without any lock of its own
	setStatus := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		views++
		fmt.Fprintf(w, "user %s, change %d", r.PathValue("id"), views)
	})

	mux := http.NewServeMux()
	mux.Handle("PUT /users/{id}/status", locks.Serialize("user:status:{path.id}", core.WithMaxWait(2*time.Second))(setStatus))

	server := httptest.NewServer(mux)
	defer server.Close()
	fmt.Println(send(server.URL+"/users/42/status", http.MethodPut, "away"))
	fmt.Println(send(server.URL+"/users/42/status", http.MethodPut, "back"))
	// Output:
	// 200 user 42, change 1
	// 200 user 42, change 2
}

// A client that got no answer sends its payment again, with the same key.
func ExampleLocks_Idempotency() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	locks := lockhttp.New(eng)

	payments := 0
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payments++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d", payments)
	})
	// Who calls; here from a header that an authenticating proxy has set.
	account := func(r *http.Request) string { return r.Header.Get("X-Account") }

	mux := http.NewServeMux()
	mux.Handle("POST /payments", locks.Idempotency(account, core.WithRetention(24*time.Hour))(pay))

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
func ExampleWatch() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())
	locks := lockhttp.New(eng)
	handler := http.NotFoundHandler()

	routes := lockhttp.Watch(http.NewServeMux())
	routes.Handle("PUT /users/{id}/status", handler, locks.Serialize("user:status:{path.id}"))
	routes.Handle("POST /messages", handler, locks.Once("message:{body.id}"))
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

// An ErrorHandler answers in the application's own form.
func ExampleSerializeConfig() {
	eng, err := core.New(memstore.New())
	if err != nil {
		panic(err)
	}
	defer eng.Close(context.Background())

	rule, err := lockhttp.SerializeConfig{
		Engine:   eng,
		Template: "user:{path.id}",
		Options:  []core.CallOption{core.WithFailFast()},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err *reasons.Refusal) {
			if errors.Is(err, core.ErrHeld) {
				http.Error(w, "somebody else is changing this user", http.StatusConflict)
				return
			}
			lockhttp.DefaultErrorHandler(w, r, err)
		},
	}.ToMiddleware()
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /users/{id}", rule(http.NotFoundHandler()))

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
