package httprule_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// TestClosedBodies: what a key function closes is still the handler's; what the
// handler closes is closed.
func TestClosedBodies(t *testing.T) {
	body := strings.Repeat("0123456789", 10_000)
	byBody := func(r *http.Request) string {
		defer r.Body.Close()
		first := make([]byte, 10)
		_, _ = io.ReadFull(r.Body, first)
		return string(first)
	}
	eng := ruletest.NewEngine(t, ruletest.NewStore())
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if data, err := io.ReadAll(r.Body); string(data) != body || err != nil {
			t.Errorf("the handler read %d bytes, %v", len(data), err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
			t.Errorf("after Close: %v", err)
		}
	})
	inner := func(r *http.Request) string { return "inner:" + byBody(r) }
	for name, guarded := range map[string]http.Handler{
		"one rule":  ruletest.Middleware(t, eng, lockhttp.SerializeBy("*", byBody))(h),
		"two rules": ruletest.Middleware(t, eng, lockhttp.SerializeBy("*", byBody), lockhttp.SerializeBy("*", inner))(h),
	} {
		t.Run(name, func(t *testing.T) {
			if a := ruletest.Serve(t, guarded, false).Do("POST", "/", body); a.Status != 200 {
				t.Errorf("answer = %+v", a)
			}
		})
	}
}
