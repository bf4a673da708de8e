package unlocked_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
	"github.com/keyturn/keyturn/store/unlocked"
)

// lockingHandler takes a lease for each line, as a handler that sends its lines to a locked place does.
type lockingHandler struct {
	slog.Handler
	eng  *core.Engine
	busy bool
}

func (h *lockingHandler) Handle(ctx context.Context, _ slog.Record) error {
	if h.eng == nil || h.busy { // its own lease is no reason for another line
		return nil
	}
	h.busy = true
	defer func() { h.busy = false }()
	return h.eng.Do(ctx, "log", func(context.Context) error { return nil })
}

// The store once wrote its warning while it held its mutex, so a handler that took a lease never returned.
func TestALogHandlerMayTakeALease(t *testing.T) {
	t.Setenv(unlocked.Env, "1")
	h := &lockingHandler{Handler: slog.NewTextHandler(io.Discard, nil)}
	eng, err := core.New(unlocked.FromEnv(memstore.New(), slog.New(h)), core.WithMaxHold(core.Forever))
	must(t, err)
	h.eng = eng
	done := make(chan error, 1)
	go func() { done <- eng.Do(ctx, "user:1", func(context.Context) error { return nil }) }()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the handler's acquisition never came back")
	}
	wantNil(t, eng.Close(ctx))
}
