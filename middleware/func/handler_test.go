package lockfunc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func TestErrorHandler(t *testing.T) {
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	kit := locktest.New(t)
	locks := lockfunc.New(kit.Engine).WithErrorHandler(func(_ context.Context, refused *reasons.Refusal) error {
		told = refused
		if refused.Reason == reasons.KeyInvalid {
			return nil
		}
		return busy
	})
	work, err := lockfunc.Serialize(locks, "work", func(key string) string { return key }, func(context.Context, string) (int, error) { return 0, own }, core.WithFailFast())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := work(context.Background(), "k"); err != own || told != nil {
		t.Errorf("the function's own error: %v, %+v", err, told)
	}
	lease, err := kit.Engine.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := work(context.Background(), "k"); err != busy || told == nil || told.Reason != reasons.LockHeld || told.Rule != "work" || told.Key != "k" || !errors.Is(told.Answer, core.ErrHeld) {
		t.Errorf("refused: %v, %+v", err, told)
	}
	if _, err := work(context.Background(), ""); !errors.Is(err, core.ErrInvalidKey) {
		t.Errorf("the default: %v", err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}
