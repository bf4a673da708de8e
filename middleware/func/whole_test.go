package lockfunc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

// TestAResultAfterTheContextsEndIsNotReplayed: it may be a part, and the caller that ran the
// function knows that its context has ended. A repeat does not.
func TestAResultAfterTheContextsEndIsNotReplayed(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	send, err := lockfunc.Once(lockfunc.New(locktest.New(t).Engine), "send", byUser, func(ctx context.Context, _ job) (string, error) {
		cancel()
		<-ctx.Done()
		return "the beginn", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := send(ctx, job{User: "ann"}); got != "the beginn" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := send(context.Background(), job{User: "ann"}); got != "" || !errors.Is(err, core.ErrResultNotKept) {
		t.Errorf("the repeat: %q, %v", got, err)
	}
}
