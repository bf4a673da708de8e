package lockasynq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	"github.com/keyturn/keyturn/store/memstore"
)

func setStatus(context.Context, *asynq.Task) error { return nil }

func storeMessage(context.Context, *asynq.Task) error { return nil }

// A worker whose tasks take turns per user, and process each message once.
func Example() {
	eng, err := core.New(memstore.New()) // redisstore.New(...), for more than one process
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(context.Background())

	locks, err := lockasynq.New(eng,
		lockasynq.Serialize("im:status", "user:status:{payload.user_id}"),
		lockasynq.Once("im:message", "msg:{payload.id}", core.WithRetention(24*time.Hour)),
	)
	if err != nil {
		log.Fatal(err)
	}
	mux := asynq.NewServeMux()
	mux.Use(locks.Middleware)
	mux.HandleFunc("im:status", setStatus)
	mux.HandleFunc("im:message", storeMessage)

	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: "127.0.0.1:6379"}, asynq.Config{
		Concurrency:    10,
		IsFailure:      lockasynq.IsFailure(nil),
		RetryDelayFunc: lockasynq.RetryDelay(nil),
	})
	_ = srv // srv.Run(mux) returns when the process is told to end
}

// A key that a template can't express: computed from the payload as the handler
// decodes it.
func ExampleSerializeBy() {
	type Transfer struct {
		From int64 `json:"from"`
		To   int64 `json:"to"`
	}
	pair := func(t Transfer) string {
		return fmt.Sprintf("transfer:%d:%d", min(t.From, t.To), max(t.From, t.To))
	}
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, _ := lockasynq.New(eng, lockasynq.SerializeBy("bank:transfer", pair))

	h := locks.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := core.LeaseFrom(ctx)
		fmt.Println(lease.Key())
		return nil
	}))
	for _, t := range []Transfer{{From: 7, To: 3}, {From: 3, To: 7}} {
		payload, _ := json.Marshal(t)
		_ = h.ProcessTask(context.Background(), asynq.NewTask("bank:transfer", payload))
	}
	// Output:
	// transfer:3:7
	// transfer:3:7
}

// A misspelt field keeps the worker from starting, instead of archiving every
// task it gets.
func ExampleSerializeFor() {
	type User struct {
		ID int64 `json:"id"`
	}
	type Status struct {
		User User `json:"user"`
	}
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	for _, template := range []string{"user:{payload.user.id}", "user:{payload.user_id}", "user:{payload.user}"} {
		_, err := lockasynq.New(eng, lockasynq.SerializeFor[Status]("im:status", template))
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// lockasynq: rule for "im:status": template "user:{payload.user_id}": {payload.user_id}: an object (lockasynq_test.Status) has no field user_id
	// lockasynq: rule for "im:status": template "user:{payload.user}": {payload.user}: user is an object (lockasynq_test.User), not a single value
}
