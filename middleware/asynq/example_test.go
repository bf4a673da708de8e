package lockasynq_test

import (
	"context"
	"encoding/json"
	"errors"
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

// Gateways of one message enqueue it twice, under task ids of their own.
func ExampleOnce() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, _ := lockasynq.New(eng, lockasynq.Once("im:message", "msg:{payload.id}"))

	h := locks.Middleware(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		fmt.Println("processing", string(t.Payload()))
		return nil
	}))
	for range 2 {
		fmt.Println(h.ProcessTask(context.Background(), asynq.NewTask("im:message", []byte(`{"id":"8f2c"}`))))
	}
	// Output:
	// processing {"id":"8f2c"}
	// <nil>
	// <nil>
}

// The server's own ideas of failure and delay stay what they are for errors
// that are not this package's.
func ExampleIsFailure() {
	errMaintenance := errors.New("maintenance")
	cfg := asynq.Config{
		IsFailure: lockasynq.IsFailure(func(err error) bool { return !errors.Is(err, errMaintenance) }),
		RetryDelayFunc: lockasynq.RetryDelay(func(int, error, *asynq.Task) time.Duration {
			return time.Minute
		}),
	}
	held := &lockasynq.RescheduleError{Err: core.ErrHeld}
	fmt.Println("held:", cfg.IsFailure(held), cfg.RetryDelayFunc(0, held, nil) < time.Minute)
	fmt.Println("maintenance:", cfg.IsFailure(errMaintenance), cfg.RetryDelayFunc(0, errMaintenance, nil))
	// Output:
	// held: false true
	// maintenance: false 1m0s
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

// Everything that is wrong with the rules is told at start.
func ExampleNew_errors() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	_, err := lockasynq.New(eng,
		lockasynq.Serialize("im:status", "user:{body.user_id}"),
		lockasynq.Once("im:message", "msg:{payload.id}", core.WithTTL(0)),
	)
	fmt.Println(err)
	// Output:
	// lockasynq: rule for "im:status": template "user:{body.user_id}": {body.user_id}: no such source: want payload, payload.<path>, header.<name>, type, queue or id
	// rule for "im:message": keyturn: WithTTL(0s): want 10ms to 24h
}
