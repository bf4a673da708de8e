package lockriver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/middleware/reasons"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

func TestErrorHandler(t *testing.T) {
	busy, own := errors.New("busy"), errors.New("own")
	var told *reasons.Refusal
	kit := locktest.New(t)
	locks, err := lockriver.New(kit.Engine, lockriver.Serialize("t", "k:{args.id}", core.WithFailFast()))
	if err != nil {
		t.Fatal(err)
	}
	locks = locks.WithErrorHandler(func(_ context.Context, _ *rivertype.JobRow, refused *reasons.Refusal) error {
		told = refused
		return busy
	})
	run := func(args string) error {
		return locks.Work(context.Background(), &rivertype.JobRow{Kind: "t", EncodedArgs: []byte(args)}, func(context.Context) error { return own })
	}
	if err := run(`{"id":1}`); err != own || told != nil {
		t.Errorf("the worker's own error: %v, %+v", err, told)
	}
	lease, err := kit.Engine.Acquire(context.Background(), "k:1")
	if err != nil {
		t.Fatal(err)
	}
	var snooze *rivertype.JobSnoozeError
	if err := run(`{"id":1}`); err != busy || told.Reason != reasons.LockHeld || told.Rule != "t" || told.Key != "k:1" || !errors.As(told.Answer, &snooze) {
		t.Errorf("refused: %v, %+v", err, told)
	}
	if err := run(`{}`); err != busy || told.Reason != reasons.KeyInvalid {
		t.Errorf("no key: %v, %+v", err, told)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}
