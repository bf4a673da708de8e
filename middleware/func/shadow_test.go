package lockfunc_test

import (
	"context"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		decorate := lockfunc.Serialize[string, func()]
		if once {
			decorate = lockfunc.Once[string, func()]
		}
		run, err := decorate(lockfunc.New(eng), "work", func(id string) string { return id },
			func(ctx context.Context, _ string) (func(), error) { return nil, handler(ctx) }, opts...) // func() can't be stored
		if err != nil {
			t.Fatal(err)
		}
		return func(id string) error {
			_, err := run(context.Background(), id)
			return err
		}
	})
}
