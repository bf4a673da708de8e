package lockasynq_test

import (
	"context"
	"slices"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

type caller struct{}

func TestSerializeKeys(t *testing.T) {
	type transfer struct{ From, To string }
	locks, err := lockasynq.New(locktest.New(t).Engine, lockasynq.SerializeKeys("t", func(ctx context.Context, p transfer) ([]string, error) {
		return []string{p.From, p.To, ctx.Value(caller{}).(string)}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	var held []string
	h := locks.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := core.LeaseFrom(ctx)
		for _, claim := range lease.Claims() {
			held = append(held, claim.Key)
		}
		return nil
	}))
	ctx := context.WithValue(t.Context(), caller{}, "ann")
	if err := h.ProcessTask(ctx, asynq.NewTask("t", []byte(`{"From":"b","To":"a"}`))); err != nil || !slices.Equal(held, []string{"a", "ann", "b"}) {
		t.Errorf("%v, %v", held, err)
	}
}

// TestOnceKey: the key of Once may have something of the context.
func TestOnceKey(t *testing.T) {
	kit, ran := locktest.New(t), 0
	key := func(ctx context.Context, p struct{ ID string }) (string, error) {
		return "once:" + ctx.Value(caller{}).(string) + p.ID, nil
	}
	locks, err := lockasynq.New(kit.Engine, lockasynq.OnceKey("t", key))
	if err != nil {
		t.Fatal(err)
	}
	h := locks.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { ran++; return nil }))
	for _, who := range []string{"ann", "bob", "ann"} {
		if err := h.ProcessTask(context.WithValue(t.Context(), caller{}, who), asynq.NewTask("t", []byte(`{"ID":"1"}`))); err != nil {
			t.Error(err)
		}
	}
	if info, err := kit.Engine.Inspect(t.Context(), "once:bob1"); ran != 2 || err != nil || info.Record == nil {
		t.Errorf("ran %d times, %+v, %v", ran, info, err)
	}
	if _, err := lockasynq.New(kit.Engine, lockasynq.OnceKey[int]("t", nil)); err == nil {
		t.Error("a nil function")
	}
}
