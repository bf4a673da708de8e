package redisstore_test

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// engine makes an engine that stands for a process of its own.
func engine(t testing.TB, server *redistest.Server, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	e, err := core.New(open(t, server.Client()), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(within(t, 5*time.Second)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}
