package lockfunc_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	"github.com/keyturn/keyturn/store/memstore"
)

// The options of a rule reach the engine, as in every middleware: the second call has the lease
// that the first one left behind. A rule without the option leaves none.
func TestRuleThatLingers(t *testing.T) {
	ctx, mem := context.Background(), memstore.New()
	eng, err := core.New(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(ctx)
	locks := lockfunc.New(eng)
	for name, linger := range map[string]time.Duration{"keeps": time.Minute, "gives back": 0} {
		run, err := lockfunc.Serialize(locks, name, func(key string) string { return key },
			func(ctx context.Context, _ string) (uint64, error) {
				l, _ := core.LeaseFrom(ctx)
				return l.Token(), nil
			}, core.WithLinger(linger))
		if err != nil {
			t.Fatal(err)
		}
		first, err := run(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := mem.Inspect(ctx, name)
		if kept := len(info.Holders) == 1 && info.Holders[0].Lingers; err != nil || kept != (linger > 0) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		if second, err := run(ctx, name); err != nil || second <= first || (second == first+1) != (linger > 0) {
			t.Errorf("%s: token %d after %d, %v", name, second, first, err)
		}
	}
}
