package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
)

// A batch of 500 messages, half of them repeated, takes a few round trips. A loop takes 750.
// It does not run beside others: on a busy machine the requests come one by one, and none waits for company.
func TestOnceEachTakesFewRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	eng, err := core.New(open(t, server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(within(t, 5*time.Second))
	ctx := within(t, 30*time.Second)
	items := make([]core.Item, 500)
	run := func(from int) (ran int) {
		for i := range items {
			items[i].Key = fmt.Sprint("msg:", from+i)
		}
		err := eng.OnceEach(ctx, items, func(_ context.Context, fresh []int) error {
			for _, i := range fresh {
				items[i].Result = []byte(items[i].Key)
			}
			ran = len(fresh)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if item.Err != nil || string(item.Result) != item.Key {
				t.Errorf("%+v", item)
			}
		}
		return ran
	}
	if n := run(0); n != 500 {
		t.Errorf("%d of 500 ran", n)
	}
	before := server.Commands(t)
	if n := run(250); n != 250 {
		t.Errorf("%d of 250 ran", n)
	}
	after := server.Commands(t)
	trips := after["evalsha"] - before["evalsha"] + after["eval"] - before["eval"]
	t.Logf("%d round trips", trips)
	if trips > 100 {
		t.Errorf("%d round trips", trips)
	}
}
