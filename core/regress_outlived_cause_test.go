package core_test

import (
	"context"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A goroutine that outlived Do, and went on under its context, was told "context canceled" and not why.
func TestAnEndedWaitSaysWhy(t *testing.T) {
	eng := newEngine(t, memstore.New())
	var outlived context.Context
	must(t, eng.Do(bg, "k", func(ctx context.Context) error { outlived = ctx; return nil }))
	_, err := eng.Acquire(outlived, "other")
	wantOnly(t, err, context.Canceled)
	if !strings.Contains(err.Error(), core.ErrReleased.Error()) {
		t.Errorf("the error does not say why the context has ended: %v", err)
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if _, err := eng.Acquire(ended, "k"); err.Error() != `keyturn: waiting for "k": context canceled` {
		t.Error(err)
	}
}
