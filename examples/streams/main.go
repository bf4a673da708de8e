// Streams consumes a Redis stream without a middleware: core.SerializeFunc and
// core.OnceFunc put the rules around the function that handles an entry. Two
// consumers share the work, and each message was added twice.
//
// It uses the Redis of REDIS_URL, or else a private one if it finds the program
// for it.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/im/anyredis"
	"github.com/keyturn/keyturn/store/redisstore"
)

func main() {
	server, err := anyredis.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	opt, err := redis.ParseURL(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(opt)
	defer client.Close()

	const messages = 5
	if err := produce(context.Background(), client, messages); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	work := func(_ context.Context, m redis.XMessage) (string, error) {
		fmt.Printf("%v in group %v\n", m.Values["id"], m.Values["group"])
		return "applied", nil
	}
	if err := serve(ctx, client, time.Second, work, "west", "east"); err != nil {
		log.Fatal(err)
	}
}

// produce adds each message twice, as a gateway does that got no answer the
// first time.
func produce(ctx context.Context, client *redis.Client, messages int) error {
	if err := client.XGroupCreateMkStream(ctx, stream, group, "0").Err(); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return err
	}
	for range 2 {
		for i := range messages {
			values := map[string]any{"id": fmt.Sprint("m", i), "group": i % 2}
			if err := client.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: values}).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve runs one consumer per name until ctx ends, each with an engine of its
// own, as if they were processes.
func serve(ctx context.Context, client *redis.Client, idle time.Duration, work handler, names ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(names))
	var running sync.WaitGroup
	defer running.Wait()
	for _, name := range names {
		running.Go(func() {
			err := serveOne(ctx, client, name, idle, work)
			if err != nil {
				cancel()
			}
			errs <- err
		})
	}
	for range names {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func serveOne(ctx context.Context, client *redis.Client, name string, idle time.Duration, work handler) error {
	store, err := redisstore.New(client)
	if err != nil {
		return err
	}
	eng, err := core.New(store)
	if err != nil {
		return err
	}
	defer eng.Close(context.Background())
	handle, err := guarded(eng, work)
	if err != nil {
		return err
	}
	return consume(ctx, client, name, idle, handle)
}
