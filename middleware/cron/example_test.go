package lockcron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/keyturn/keyturn/core"
	lockcron "github.com/keyturn/keyturn/middleware/cron"
	"github.com/keyturn/keyturn/store/memstore"
)

func ExampleSerialize() {
	eng, _ := core.New(memstore.New()) // a program: redisstore.New(client)
	defer eng.Close(context.Background())
	once, err := lockcron.Serialize(context.Background(), eng, "cron:cleanup", core.WithMinHold(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	schedule := cron.New()
	_, err = schedule.AddJob("*/5 * * * *", cron.NewChain(once).Then(lockcron.Func(func(ctx context.Context) error {
		return nil // the work, until ctx ends
	})))
	fmt.Println(err, len(schedule.Entries()))
	// Output: <nil> 1
}
