package lockgocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/keyturn/keyturn/core"
	lockgocron "github.com/keyturn/keyturn/middleware/cron/gocron"
	"github.com/keyturn/keyturn/store/memstore"
)

func ExampleNewLocker() {
	eng, _ := core.New(memstore.New()) // a program: redisstore.New(client)
	defer eng.Close(context.Background())
	locker, err := lockgocron.NewLocker(eng, "cron:{job}", core.WithMinHold(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	schedule, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer schedule.Shutdown()
	_, err = schedule.NewJob(gocron.CronJob("*/5 * * * *", false), gocron.NewTask(func() { /* the work */ }), gocron.WithName("cleanup"))
	schedule.Start()
	fmt.Println(err, len(schedule.Jobs()))
	// Output: <nil> 1
}
