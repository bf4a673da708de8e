package lockasynq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/leveltest"
	"github.com/keyturn/keyturn/keytmpl"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

type membership struct {
	Group  string `json:"group"`
	Member string `json:"member"`
}

// With a template, and with a key function, where what makes levels is the
// function's to say.
func TestLevels(t *testing.T) {
	t.Parallel()
	opts := []core.CallOption{core.WithHierarchy(), core.WithFailFast()}
	for name, rule := range map[string]lockasynq.Rule{
		"template": lockasynq.SerializeFor[membership]("t", fmt.Sprintf(leveltest.Template, "payload.group", "payload.member"), opts...),
		"function": lockasynq.SerializeBy("t", func(m membership) string {
			return fmt.Sprintf("group:%s/member:%s", keytmpl.Escape(m.Group), keytmpl.Escape(m.Member))
		}, opts...),
	} {
		t.Run(name, func(t *testing.T) {
			eng := engine(t, memstore.New())
			var claims []core.Claim
			h := locks(t, eng, rule).Middleware(handler(func(ctx context.Context, _ *asynq.Task) error {
				lease, _ := core.LeaseFrom(ctx)
				claims = lease.Claims()
				return nil
			}))
			leveltest.Run(t, eng, func(group, member string) []core.Claim {
				payload, err := json.Marshal(membership{group, member})
				if err != nil {
					t.Fatal(err)
				}
				claims = nil
				err = h.ProcessTask(context.Background(), asynq.NewTask("t", payload))
				if (claims == nil) != errors.Is(err, core.ErrHeld) || claims != nil && err != nil {
					t.Errorf("claims %v, %v", claims, err)
				}
				return claims
			})
		})
	}
	empty := locks(t, engine(t, memstore.New()), lockasynq.SerializeBy("t", func(m membership) string { return m.Group + "//" + m.Member }, opts...))
	err := nothingRuns(t, empty).ProcessTask(context.Background(), asynq.NewTask("t", []byte(`{"group":"1","member":"2"}`)))
	if !errors.Is(err, asynq.SkipRetry) || !errors.Is(err, core.ErrInvalidKey) {
		t.Errorf("a key with an empty level: %v", err)
	}
}
