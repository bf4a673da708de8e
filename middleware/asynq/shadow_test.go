package lockasynq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		rule := lockasynq.Serialize
		if once {
			rule = lockasynq.Once
		}
		locks, err := lockasynq.New(eng, rule("t", "user:{payload.id}", opts...))
		if err != nil {
			t.Fatal(err)
		}
		h := locks.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return handler(ctx) }))
		return func(id string) error {
			return h.ProcessTask(context.Background(), asynq.NewTask("t", []byte(`{"id":"`+id+`"}`)))
		}
	})
}

// TestShadowOfRulesThatDrop: their numbers at the store refuse and drop tasks, which no shadow may.
func TestShadowOfRulesThatDrop(t *testing.T) {
	eng, err := core.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	rule := lockasynq.Serialize("t", "user:{payload.id}", core.WithShadow())
	for name, rule := range map[string]lockasynq.Rule{
		"KeepLatestBy": rule.KeepLatestBy("{payload.version}"), "UniqueUntilStarted": rule.UniqueUntilStarted(),
	} {
		if _, err := lockasynq.New(eng, rule); !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
