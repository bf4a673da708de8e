package lockhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestASmallBodyCostsNoAllocation: reading it before the key is asked for is free,
// also where the key does not come from it.
func TestASmallBodyCostsNoAllocation(t *testing.T) {
	rule := ruletest.Middleware(t, ruletest.NewEngine(t, memstore.New()), lockhttp.Serialize("*", "k:{path.id}"))
	allocs := func(body string, rules ...middleware) float64 {
		mux := http.NewServeMux()
		mux.Handle("POST /{id}", around(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), rules...))
		return testing.AllocsPerRun(1000, func() {
			var content io.Reader
			if body != "" {
				content = strings.NewReader(body)
			}
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/42", content))
		})
	}
	small := strings.Repeat("x", 4000)
	without := allocs("", rule) - allocs("")
	// One more is allowed, because the race detector has pools lose what they keep. A buffer
	// that grows with the body would be several.
	if with := allocs(small, rule) - allocs(small); with > without+1 {
		t.Errorf("the rule makes %v allocations for a request with a body, %v without", with, without)
	}
	if without > 13 { // nine of them are the lease's
		t.Errorf("the rule makes %v allocations for a request", without)
	}
}
