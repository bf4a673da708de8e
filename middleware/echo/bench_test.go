package lockecho_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// BenchmarkRequest is what a rule adds to a request, over a store in memory and
// without a network: compare with none.
func BenchmarkRequest(b *testing.B) {
	eng := ruletest.NewEngine(b, ruletest.NewStore())
	bySource := func(r *http.Request) string { return "by:" + r.PathValue("id") }
	body := `{"user":{"id":"u1"},"text":"` + strings.Repeat("x", 200) + `"}`
	for _, bench := range []struct {
		name  string
		path  string // of each request, if it has a place for a number
		rules []echo.MiddlewareFunc
	}{
		{"none", "/42", nil},
		{"Serialize path", "/42", []echo.MiddlewareFunc{rule(b, eng, lockhttp.Serialize("*", "path:{path.id}"))}},
		{"Serialize function", "/42", []echo.MiddlewareFunc{rule(b, eng, lockhttp.SerializeBy("*", bySource))}},
		{"Serialize JSON", "/42", []echo.MiddlewareFunc{rule(b, eng, lockhttp.Serialize("*", "json:{body.user.id}"))}},
		{"Once first", "/%d", []echo.MiddlewareFunc{rule(b, eng, lockhttp.Once("*", "first:{path.id}"))}},
		{"Once repeated", "/42", []echo.MiddlewareFunc{rule(b, eng, lockhttp.Once("*", "again:{path.id}"))}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := echo.New()
			e.POST("/:id", ok, bench.rules...)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				path := bench.path
				if strings.Contains(path, "%") {
					path = fmt.Sprintf(path, i)
				}
				rec := httptest.NewRecorder()
				e.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
				if rec.Code != http.StatusOK {
					b.Fatal(rec.Code, rec.Body)
				}
			}
		})
	}
}
