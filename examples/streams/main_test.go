//go:build unix

package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every message is processed once and one at a time per group, although each
// was added twice and its first try failed; afterwards nothing is pending, not
// even an entry that nobody can work on.
func TestEachMessageOnce(t *testing.T) {
	client := redistest.Start(t).Client()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	const messages = 20
	if err := produce(ctx, client, "run", messages); err != nil {
		t.Fatal(err)
	}
	if err := client.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: map[string]any{"junk": 1}}).Err(); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	tried, done, inside := map[any]int{}, map[any]int{}, map[any]int{}
	work := func(_ context.Context, m redis.XMessage) (string, error) {
		id, group := m.Values["id"], m.Values["group"]
		mu.Lock()
		if inside[group]++; inside[group] > 1 {
			t.Errorf("two at a time in group %v", group)
		}
		tried[id]++
		first := tried[id] == 1
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		inside[group]--
		if first {
			return "", errors.New("not this time")
		}
		done[id]++
		return "applied", nil
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, client, 200*time.Millisecond, work, "west", "east") }()
	for { // until all entries have been delivered and acknowledged
		if ctx.Err() != nil {
			t.Fatal("not all entries were acknowledged")
		}
		if finished(ctx, client, 2*messages+1) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range done {
		if n != 1 {
			t.Errorf("%v was processed %d times", id, n)
		}
	}
	if len(done) != messages {
		t.Errorf("%d messages were processed, want %d", len(done), messages)
	}
}
