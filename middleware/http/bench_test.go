package lockhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// BenchmarkRequest is what a rule adds to a request, over a store in memory and
// without a network: compare with none. The engine's own part of it is Do.
func BenchmarkRequest(b *testing.B) {
	eng := ruletest.NewEngine(b, memstore.New())
	bySource := func(r *http.Request) string { return "by:" + r.PathValue("id") }
	body := `{"user":{"id":"u1"},"text":"` + strings.Repeat("x", 200) + `"}`
	engineAlone := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = eng.Do(r.Context(), "do:42", func(context.Context) error {
				next.ServeHTTP(w, r)
				return nil
			})
		})
	}
	for _, bench := range []struct {
		name string
		path string // of each request, if it has a place for a number
		rule []middleware
	}{
		{"none", "/42", nil},
		{"Do", "/42", []middleware{engineAlone}},
		{"Serialize path", "/42", []middleware{ruletest.Middleware(b, eng, lockhttp.Serialize("*", "path:{path.id}"))}},
		{"Serialize function", "/42", []middleware{ruletest.Middleware(b, eng, lockhttp.SerializeBy("*", bySource))}},
		{"Serialize JSON", "/42", []middleware{ruletest.Middleware(b, eng, lockhttp.Serialize("*", "json:{body.user.id}"))}},
		{"Once first", "/%d", []middleware{ruletest.Middleware(b, eng, lockhttp.Once("*", "first:{path.id}"))}},
		{"Once repeated", "/42", []middleware{ruletest.Middleware(b, eng, lockhttp.Once("*", "again:{path.id}"))}},
		{"Idempotency repeated", "/42", []middleware{ruletest.Middleware(b, eng, lockhttp.Idempotency("*", lockhttp.AnyCaller, core.WithMaxWait(core.Forever)))}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			mux := http.NewServeMux()
			mux.Handle("POST /{id}", around(http.HandlerFunc(ruletest.Done), bench.rule...))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				path := bench.path
				if strings.Contains(path, "%") {
					path = fmt.Sprintf(path, i)
				}
				req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
				req.Header.Set("Idempotency-Key", "k")
				rec := httptest.NewRecorder()
				mux.ServeHTTP(rec, req)
				if rec.Code != http.StatusOK {
					b.Fatal(rec.Code, rec.Body)
				}
			}
		})
	}
}
