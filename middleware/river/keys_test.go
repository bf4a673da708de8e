package lockriver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
	"github.com/keyturn/keyturn/locktest"
	lockriver "github.com/keyturn/keyturn/middleware/river"
)

type caller struct{}

// TestKeys: the keys of all rules of a kind are taken together, each in its mode. Key functions get the arguments as
// the worker gets them.
func TestKeys(t *testing.T) {
	type args struct{ From, To int }
	pair := func(a args) string { return fmt.Sprintf("transfer:%d:%d", min(a.From, a.To), max(a.From, a.To)) }
	mine := func(ctx context.Context, _ args) (string, error) { return "of:" + ctx.Value(caller{}).(string), nil }
	one := func(template string) []lockriver.Rule { return []lockriver.Rule{lockriver.Serialize("k", template)} }
	set := func(skipped string) []lockriver.Rule { // jobs of that queue
		skip := func(_ context.Context, j *rivertype.JobRow) bool { return j.Queue == skipped }
		return []lockriver.Rule{
			lockriver.Serialize("k", "user:{args.user.id}").SkipIf(skip), lockriver.Serialize("k", "pair:{args.from}", core.WithShared()),
		}
	}
	for name, tt := range map[string]struct {
		rules []lockriver.Rule
		want  []string
	}{
		"a field":                {one("user:{args.user.id}"), []string{"exclusive user:42"}},
		"a list":                 {one("member:{args.members[*].id}"), []string{"exclusive member:1", "exclusive member:2"}},
		"of the job":             {one("{kind}:{queue}:{id}"), []string{"exclusive k:hand:7"}},
		"a set":                  {set(""), []string{"shared pair:9", "exclusive user:42"}},
		"a set with one skipped": {set("hand"), []string{"shared pair:9"}},
		"a function":             {[]lockriver.Rule{lockriver.SerializeBy("k", pair)}, []string{"exclusive transfer:7:9"}},
		"a function, once":       {[]lockriver.Rule{lockriver.OnceBy("k", pair)}, []string{"exclusive transfer:7:9"}},
		"of the context, once":   {[]lockriver.Rule{lockriver.OnceKey("k", mine)}, []string{"exclusive of:ann"}},
	} {
		l := locks(t, locktest.New(t).Engine, tt.rules...)
		j := job("k", `{"user":{"id":42},"members":[{"id":1},{"id":2}],"from":9,"to":7}`)
		j.Queue = "hand"
		var held []string
		err := l.Work(context.WithValue(t.Context(), caller{}, "ann"), j, func(ctx context.Context) error {
			lease, _ := core.LeaseFrom(ctx)
			for _, c := range lease.Claims() {
				held = append(held, fmt.Sprint(c.Mode, " ", c.Key))
			}
			return nil
		})
		check(t, err == nil && slices.Equal(held, tt.want), "%s: held %q, want %q; %v", name, held, tt.want, err)
		wantNil(t, l.Work(t.Context(), job("other", ""), nothing))
	}
	if l := locks(t, locktest.New(t).Engine, set("")...); l.Coverage()[0].String() != "k: serialize user:{args.user.id} unless skipped, serialize shared pair:{args.from}" {
		t.Errorf("%v", l.Coverage())
	}
	for _, rule := range []lockriver.Rule{lockriver.SerializeBy("k", pair), lockriver.OnceBy("k", func(string) string { return "" })} {
		err := locks(t, locktest.New(t).Engine, rule).Work(t.Context(), job("k", `{"from":"nine"}`), nothing)
		cancelled := (*rivertype.JobCancelError)(nil)
		check(t, errors.As(err, &cancelled), "arguments of another type: %v", err)
	}
}

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		rule := lockriver.Serialize
		if once {
			rule = lockriver.Once
		}
		l := locks(t, eng, rule("k", "user:{args.id}", opts...))
		return func(id string) error { return l.Work(context.Background(), job("k", `{"id":"`+id+`"}`), handler) }
	})
}
