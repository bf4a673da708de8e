package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
)

const group = "workers"

// stream has another name in each run: the Redis may be one in use, with streams of others.
var stream = "operations:" + rand.Text()

// handler processes one entry.
type handler func(context.Context, redis.XMessage) (string, error)

// guarded puts two rules around handle. Each message is processed once, by the id that its
// producer gave it: a message that was added twice has two entry ids. And messages of a group
// are processed one at a time.
func guarded(eng *core.Engine, handle handler) (handler, error) {
	locks := lockfunc.New(eng)
	oneAtATime, err := lockfunc.Serialize(locks, "apply", func(m redis.XMessage) string { return field("group:", m, "group") }, handle)
	if err != nil {
		return nil, err
	}
	return lockfunc.Once(locks, "process", func(m redis.XMessage) string { return field("msg:", m, "id") }, oneAtATime,
		core.WithRetention(time.Minute)) // for as long as a repeat may come
}

// field makes a key of an entry's field. For an entry without the field it returns "", which
// every rule refuses.
func field(prefix string, m redis.XMessage, name string) string {
	if v, _ := m.Values[name].(string); v != "" {
		return prefix + v
	}
	return ""
}

// consume handles the group's entries until ctx ends: new ones, and those that another consumer
// has left alone for longer than idle. An entry is acknowledged when its work is done, even if
// another consumer did it.
func consume(ctx context.Context, client *redis.Client, name string, idle time.Duration, handle handler) error {
	for ctx.Err() == nil {
		entries, err := next(ctx, client, name, idle)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return fmt.Errorf("reading the stream: %w", err)
		}
		for _, m := range entries {
			_, err := handle(ctx, m)
			switch {
			case err == nil:
			case errors.Is(err, core.ErrInvalidKey):
				log.Printf("%s: entry %s can't be worked on: %v", name, m.ID, err) // no consumer can
			default:
				log.Printf("%s: entry %s is left for later: %v", name, m.ID, err)
				continue
			}
			// The work is done, so even a consumer that was told to stop acknowledges it.
			if err := client.XAck(context.WithoutCancel(ctx), stream, group, m.ID).Err(); err != nil {
				return fmt.Errorf("acknowledging: %w", err) // the entry comes again, and is a duplicate
			}
		}
	}
	return nil
}

// next returns entries to process; none if none came for a moment.
func next(ctx context.Context, client *redis.Client, name string, idle time.Duration) ([]redis.XMessage, error) {
	left, _, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: stream, Group: group, Consumer: name, MinIdle: idle, Start: "0", Count: 10,
	}).Result()
	if err != nil || len(left) > 0 {
		return left, err
	}
	read, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Streams: []string{stream, ">"}, Group: group, Consumer: name, Count: 10, Block: 100 * time.Millisecond,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return read[0].Messages, nil
}
