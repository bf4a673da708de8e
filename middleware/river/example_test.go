package lockriver_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	lockriver "github.com/keyturn/keyturn/middleware/river"
	"github.com/keyturn/keyturn/store/memstore"
)

// Workers whose jobs take turns per user, and deliver each message once.
func Example() {
	eng, err := core.New(memstore.New()) // redisstore.New(...), for more than one process
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(context.Background())

	locks, err := lockriver.New(eng,
		lockriver.Serialize("im_status", "user:status:{args.user_id}"),
		lockriver.Once("im_deliver", "message:{args.message_id}", core.WithRetention(24*time.Hour)),
	)
	if err != nil {
		log.Fatal(err)
	}
	middleware := []rivertype.Middleware{locks} // of river.Config
	_ = middleware
	for _, target := range locks.Coverage("im_status", "im_deliver", "im_report") {
		fmt.Println(target.Name, len(target.Rules))
	}
	// Output:
	// im_status 1
	// im_deliver 1
	// im_report 0
}
