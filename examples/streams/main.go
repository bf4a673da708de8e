// Streams consumes a Redis stream without a middleware: lockfunc.Serialize and lockfunc.Once
// put the rules around the function that handles an entry. Two consumers share the work, and
// each message was added twice.
//
// It uses the Redis of REDIS_URL, otherwise a private one if its program is installed.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/internal/anyredis"
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

	if err := run(client); err != nil {
		log.Fatal(err)
	}
}

// run lets two consumers process five messages, each of which was added twice.
func run(client *redis.Client) error {
	const messages = 5
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	defer client.Del(context.WithoutCancel(ctx), stream)
	if err := produce(ctx, client, fmt.Sprint(time.Now().UnixNano()), messages); err != nil {
		return err
	}
	var processed atomic.Int64
	work := func(_ context.Context, m redis.XMessage) (string, error) {
		fmt.Printf("processed message %v of group %v\n", m.Values["id"], m.Values["group"])
		processed.Add(1)
		return "applied", nil
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, client, time.Second, work, "west", "east") }()
	for ctx.Err() == nil && !finished(ctx, client, 2*messages) {
		time.Sleep(20 * time.Millisecond)
	}
	late := ctx.Err()
	stop()
	if err := errors.Join(late, <-served); err != nil {
		return err
	}
	fmt.Printf("%d entries for two consumers: %d processed, the others were duplicates\n", 2*messages, processed.Load())
	return nil
}

// finished reports whether that many entries were delivered and acknowledged.
func finished(ctx context.Context, client *redis.Client, entries int64) bool {
	groups, err := client.XInfoGroups(ctx, stream).Result()
	return err == nil && len(groups) == 1 && groups[0].Pending == 0 && groups[0].EntriesRead == entries
}

// produce adds each message twice, like a gateway that got no answer the first time. The ids of
// the messages contain run, because what an earlier run processed is still on record.
func produce(ctx context.Context, client *redis.Client, run string, messages int) error {
	if err := client.XGroupCreateMkStream(ctx, stream, group, "0").Err(); err != nil {
		return err
	}
	for range 2 {
		for i := range messages {
			values := map[string]any{"id": fmt.Sprintf("%s-%d", run, i), "group": i % 2}
			if err := client.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: values}).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve runs one consumer per name until ctx ends. Each has an engine of its own, as in a
// process of its own.
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
