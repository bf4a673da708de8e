package lockriver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

// TestSeveralRulesAreOneSet: the keys of all rules of a kind are taken together, each in its mode, and
// a rule may skip a job.
func TestSeveralRulesAreOneSet(t *testing.T) {
	eng := locktest.New(t).Engine
	byHand := func(_ context.Context, j *rivertype.JobRow) bool { return j.Queue == "hand" }
	l := locks(t, eng, lockriver.Serialize("move", "user:{args.user}").SkipIf(byHand),
		lockriver.Serialize("move", "group:{args.group}", core.WithShared()))
	for queue, want := range map[string][]string{"": {"shared group:7", "exclusive user:1"}, "hand": {"shared group:7"}} {
		j := job("move", `{"user":1,"group":7}`)
		j.Queue = queue
		var held []string
		err := l.Work(t.Context(), j, func(ctx context.Context) error {
			lease, _ := core.LeaseFrom(ctx)
			for _, c := range lease.Claims() {
				held = append(held, fmt.Sprint(c.Mode, " ", c.Key))
			}
			return nil
		})
		if err != nil || !slices.Equal(held, want) {
			t.Errorf("queue %q: held %q, want %q; %v", queue, held, want, err)
		}
	}
	if all := l.Coverage(); len(all) != 1 || all[0].String() != "move: serialize user:{args.user} unless skipped, serialize shared group:{args.group}" {
		t.Errorf("%v", all)
	}
}

// TestOnceKey: the key of Once may have something of the context; a job that is skipped leaves no record.
func TestOnceKey(t *testing.T) {
	type caller struct{}
	ran := 0
	key := func(ctx context.Context, _ struct{}) (string, error) {
		return "once:" + ctx.Value(caller{}).(string), nil
	}
	skip := func(ctx context.Context, _ *rivertype.JobRow) bool { return ctx.Value(caller{}) == "root" }
	l := locks(t, locktest.New(t).Engine, lockriver.OnceKey("mail", key).SkipIf(skip))
	for _, who := range []string{"ann", "bob", "ann", "root", "root"} {
		if err := l.Work(context.WithValue(t.Context(), caller{}, who), job("mail", "{}"), func(context.Context) error { ran++; return nil }); err != nil {
			t.Error(err)
		}
	}
	if ran != 4 {
		t.Errorf("ran %d times", ran)
	}
}
