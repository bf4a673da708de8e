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
