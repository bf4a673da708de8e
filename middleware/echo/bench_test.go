package lockecho_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
)

// BenchmarkRequest is what a rule adds to a request, over a store in memory and
// without a network: compare with none.
func BenchmarkRequest(b *testing.B) {
	locks := lockecho.New(ruletest.NewEngine(b, ruletest.NewStore()))
	bySource := func(c echo.Context) string { return "by:" + c.Param("id") }
	body := `{"user":{"id":"u1"},"text":"` + strings.Repeat("x", 200) + `"}`
	for _, bench := range []struct {
		name string
		path string // of each request, if it has a place for a number
		rule []echo.MiddlewareFunc
	}{
		{"none", "/42", nil},
		{"Serialize path", "/42", []echo.MiddlewareFunc{locks.Serialize("path:{path.id}")}},
		{"Serialize function", "/42", []echo.MiddlewareFunc{locks.SerializeBy(bySource)}},
		{"Serialize JSON", "/42", []echo.MiddlewareFunc{locks.Serialize("json:{body.user.id}")}},
		{"Once first", "/%d", []echo.MiddlewareFunc{locks.Once("first:{path.id}")}},
		{"Once repeated", "/42", []echo.MiddlewareFunc{locks.Once("again:{path.id}")}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := echo.New()
			e.POST("/:id", ok, bench.rule...)
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
