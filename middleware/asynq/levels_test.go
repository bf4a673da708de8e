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
)

// TestLevels: what makes levels is the template's to say, or the key function's.
func TestLevels(t *testing.T) {
	t.Parallel()
	type membership struct{ Group, Member string }
	opts := []core.CallOption{core.WithHierarchy(), core.WithFailFast()}
	for _, rule := range []lockasynq.Rule{
		lockasynq.SerializeFor[membership]("t", fmt.Sprintf(leveltest.Template, "payload.Group", "payload.Member"), opts...),
		lockasynq.SerializeBy("t", func(m membership) string {
			return fmt.Sprintf("group:%s/member:%s", keytmpl.Escape(m.Group), keytmpl.Escape(m.Member))
		}, opts...),
	} {
		eng := engine(t, nil)
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
			err = process(context.Background(), h, "t", string(payload))
			if (claims == nil) != errors.Is(err, core.ErrHeld) || claims != nil && err != nil {
				t.Errorf("claims %v, %v", claims, err)
			}
			return claims
		})
	}
}
