package lockecho

import (
	"reflect"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

// A linker may give two functions one address. Then a middleware of somebody
// else's looks like one of ours: it is no rule, its handler is never run, and a
// panic of it is no harm.
func TestForeignMiddlewareWithTheCodeOfOurs(t *testing.T) {
	defer func(code uintptr) { wrapCode = code }(wrapCode)
	for name, foreign := range map[string]echo.MiddlewareFunc{
		"plain": func(echo.HandlerFunc) echo.HandlerFunc {
			return func(echo.Context) error {
				t.Error("its handler was run")
				return nil
			}
		},
		"panics": func(next echo.HandlerFunc) echo.HandlerFunc {
			if next == nil {
				panic("no handler")
			}
			return next
		},
	} {
		wrapCode = reflect.ValueOf(foreign).Pointer()
		if ruleOf(foreign) != nil {
			t.Errorf("%s: it counts as a rule", name)
		}
	}
}

// Use calls a middleware that has the code of ours. If it is somebody else's, it may use the
// watcher itself.
func TestForeignMiddlewareMayAskTheWatcher(t *testing.T) {
	defer func(code uintptr) { wrapCode = code }(wrapCode)
	w := Watch(echo.New())
	asked := make(chan struct{})
	foreign := func(next echo.HandlerFunc) echo.HandlerFunc {
		w.Coverage()
		close(asked)
		return next
	}
	wrapCode = reflect.ValueOf(foreign).Pointer()
	go w.Use(foreign)
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("the watcher calls it under its own mutex")
	}
}
