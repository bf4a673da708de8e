package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// noPolling keeps waiters from looking by themselves while a test counts.
var noPolling = redisstore.WithWaiterLease(2 * time.Minute)

// calls is the number of scripts the server has been asked to run.
func calls(t testing.TB, server *redistest.Server) int64 {
	c := server.Commands(t)
	return c["evalsha"] + c["eval"]
}

// waiting is the number of owners in line for key.
func waiting(t testing.TB, server *redistest.Server, key string) int64 {
	t.Helper()
	ctx := context.Background()
	pipe := server.Client().TxPipeline()
	queue, waiters := pipe.LLen(ctx, "{lock:"+key+"}:q"), pipe.HKeys(ctx, "{lock:"+key+"}:w")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	owners := slices.DeleteFunc(waiters.Val(), func(field string) bool { return field == ":foreign" })
	if queue.Val() != int64(len(owners)) {
		t.Fatalf("%d owners are in the queue and %d among the waiters", queue.Val(), len(owners))
	}
	return queue.Val()
}

func TestReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := open(t, server.Client(), noPolling)
	release(t, a, lock(t, a, "first", "k", time.Minute)) // has the server learn the scripts
	g := lock(t, a, "holder", "k", time.Minute)
	var line []*waiter
	for i := range 5 {
		s := open(t, server.Client(), noPolling)
		line = append(line, enqueue(t, s, fmt.Sprintf("w%d", i), "k", time.Minute))
	}
	for _, w := range line {
		before, messages := calls(t, server), server.Commands(t)["publish"]
		release(t, a, g)
		g = w.granted(soon)
		// The message is all that the next one needs.
		if n := calls(t, server) - before; n != 1 {
			t.Errorf("a release took %d requests, want 1", n)
		}
		if n := server.Commands(t)["publish"] - messages; n < 1 || n > 2 { // one may be somebody's to itself
			t.Errorf("a release sent %d messages, want 1", n)
		}
	}
}

// TestNobodyJumpsTheLine: the lock became free without a word to those in line,
// and somebody comes who does not want to wait. He finds it free, and has to
// leave it to the first in line.
func TestNobodyJumpsTheLine(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client(), noPolling)
	lock(t, s, "holder", "k", time.Minute)
	first := enqueue(t, s, "first", "k", time.Minute)
	second := enqueue(t, s, "second", "k", time.Minute)
	cli(t, server, "1", "DEL", "lock:k")
	_, err := s.Acquire(within(t, time.Second), request("hurried", "k", time.Minute))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Holder != "first" {
		t.Errorf("want the first in line as the holder, got %v", err)
	}
	release(t, s, first.granted(soon))
	second.granted(soon)
}

// TestHalfOpenSubscription: nothing is heard, and nothing says that the
// connection is dead. For those who release, its process would be there for ever.
func TestHalfOpenSubscription(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := redistest.Start(t)
	network := servertest.NewProxy(t, server.Addr())
	s := open(t, &subscribing{UniversalClient: server.Client(), messages: throughProxy(server, network)}, noPolling)
	lock(t, s, "holder", "k", time.Minute)
	enqueue(t, s, "w", "k", time.Minute)
	if n := subscribers(t, server); n != 1 {
		t.Fatalf("%d subscriptions, want 1", n)
	}
	network.Blackhole()
	eventually(t, 5*time.Second, "the dead connection is given up", func() bool { return subscribers(t, server) == 0 })
	network.Heal()
	eventually(t, 15*time.Second, "there is a new one", func() bool { return subscribers(t, server) == 1 })
}
