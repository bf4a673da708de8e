package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redisstore"
)

// One engine per process serves all its handlers.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	defer client.Close()
	store, err := redisstore.New(client)
	if err != nil {
		log.Fatal(err)
	}
	eng, err := core.New(store)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(context.Background()) // closes the store, not the client

	err = eng.Do(context.Background(), "user:status:42", func(context.Context) error {
		fmt.Println("nobody else has user:status:42, in no process")
		return nil
	}, core.WithMaxWait(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
}

// A fleet that names its locks otherwise, and wants each grant on a replica.
func ExampleNew_options() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := redisstore.New(client,
		redisstore.WithPrefix("im:lock:"),
		redisstore.WithReplicas(1, 100*time.Millisecond),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}
