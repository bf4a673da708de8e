package lockhttp

import (
	"net/http"
	"reflect"
	"testing"
)

// A linker may give two functions one address. Then a middleware of somebody
// else's looks like one of ours, and is still no rule.
func TestForeignMiddlewareWithTheCodeOfOurs(t *testing.T) {
	foreign := func(next http.Handler) http.Handler {
		if next == nil {
			t.Error("called without a handler")
		}
		return http.NotFoundHandler()
	}
	defer func(code uintptr) { wrapCode = code }(wrapCode)
	wrapCode = reflect.ValueOf(foreign).Pointer()
	if _, ok := RuleOf(foreign, ""); ok {
		t.Error("it counts as a rule")
	}
}
