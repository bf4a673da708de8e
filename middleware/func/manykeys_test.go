package lockfunc_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/locktest"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

type caller struct{}

func TestSerializeKeys(t *testing.T) {
	keys := func(ctx context.Context, groups []string) ([]string, error) {
		if len(groups) == 0 {
			return nil, nil
		}
		return append([]string{"user:" + ctx.Value(caller{}).(string)}, groups...), nil
	}
	work, err := lockfunc.SerializeKeys(lockfunc.New(locktest.New(t).Engine), "work", keys, func(ctx context.Context, _ []string) (held []string, _ error) {
		lease, _ := core.LeaseFrom(ctx)
		for _, claim := range lease.Claims() {
			held = append(held, claim.Key)
		}
		return held, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), caller{}, "ann")
	if held, err := work(ctx, []string{"group:2", "group:1", "group:2"}); err != nil || !slices.Equal(held, []string{"group:1", "group:2", "user:ann"}) {
		t.Errorf("%v, %v", held, err)
	}
	if _, err := work(ctx, nil); !errors.Is(err, keytmpl.ErrMissingValue) {
		t.Errorf("no keys: %v", err)
	}
}

// TestOnceKey: the key of Once may have something of the context, and its error is the call's.
func TestOnceKey(t *testing.T) {
	unknown, ran := errors.New("who?"), 0
	key := func(ctx context.Context, id string) (string, error) {
		who, ok := ctx.Value(caller{}).(string)
		if !ok {
			return "", unknown
		}
		return "once:" + who + ":" + id, nil
	}
	work, err := lockfunc.OnceKey(lockfunc.New(locktest.New(t).Engine), "work", key, func(context.Context, string) (int, error) {
		ran++
		return ran, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, who := range []string{"ann", "bob", "ann"} {
		if n, err := work(context.WithValue(t.Context(), caller{}, who), "1"); err != nil || n != []int{1, 2, 1}[i] {
			t.Errorf("%s: %d, %v", who, n, err)
		}
	}
	if _, err := work(t.Context(), "1"); !errors.Is(err, unknown) {
		t.Error(err)
	}
}
