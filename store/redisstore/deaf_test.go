package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// arrivedAt has owner's place in line for "k" count from another time.
func arrivedAt(t testing.TB, server *redistest.Server, owner string, at time.Time) {
	t.Helper()
	fields := entry(t, server, owner)
	fields[6] = strconv.FormatInt(at.UnixMicro(), 10)
	must(t, server.Client().HSet(bg, "{lock:k}:w", owner, strings.Join(fields, " ")).Err())
}

// TestWaiterWithoutInboxIsPassedOverAtFirst by those who can be told, who keep their
// order; and takes the lock when nobody else wants it.
func TestWaiterWithoutInboxIsPassedOverAtFirst(t *testing.T) {
	server, a := onServer(t, noPolling)
	b := open(t, server.Client(), noPolling)
	deaf := open(t, as(t, server, aclKeys, aclCommands, "+info"), noPolling)
	g := lock(t, a, "holder", "k", time.Minute)
	last := enqueue(t, deaf, "deaf", "k", time.Minute)
	arrivedAt(t, server, "deaf", time.Now().Add(time.Hour)) // at first, for as long as this takes
	first, second := enqueue(t, a, "first", "k", time.Minute), enqueue(t, b, "second", "k", time.Minute)
	release(t, a, g)
	release(t, a, first.GrantedIn(soon))
	release(t, b, second.GrantedIn(soon))
	last.GrantedIn(soon)
}

// TestWaiterWithoutInboxHasItsTurn when it has waited for a while, before those who came
// later; and when it is done they have theirs, though it can't tell them.
func TestWaiterWithoutInboxHasItsTurn(t *testing.T) {
	server, a := onServer(t, noPolling)
	b := open(t, server.Client(), noPolling)
	deaf := open(t, as(t, server, aclKeys, aclCommands, "+info"), noPolling)
	g := lock(t, a, "holder", "k", time.Minute)
	first := enqueue(t, deaf, "deaf", "k", time.Minute)
	// A waiter directly behind one without an inbox asks often. This one does not: there was another one in between.
	between := enqueue(t, b, "between", "k", time.Minute)
	second, third := enqueue(t, a, "second", "k", time.Minute), enqueue(t, b, "third", "k", time.Minute)
	between.Cancel()
	between.Refused()
	arrivedAt(t, server, "deaf", time.Now().Add(-time.Hour))
	before, _ := question(t, server, "second")
	release(t, a, g)
	g = first.GrantedIn(soon)
	eventually(t, soon, "the next one looks, again and again", func() bool {
		now, _ := question(t, server, "second")
		return now > before+5
	})
	release(t, deaf, g)
	release(t, a, second.GrantedIn(soon))
	third.GrantedIn(soon)
}

// TestWaiterWithoutInboxThatDoesNotCome: the lock is kept for it for a moment, not for
// the half waiter lease that others have.
func TestWaiterWithoutInboxThatDoesNotCome(t *testing.T) {
	t.Parallel()
	server := database(t)
	a := open(t, server.Client(), noPolling)
	admin := server.Client()
	g := lock(t, a, "holder", "k", time.Minute)
	admin.RPush(bg, "{lock:k}:q", "gone")
	admin.HSet(bg, "{lock:k}:w", "gone", "1 8000000000000 150 x 0 1 1 0 0  ") // see entry
	w := enqueue(t, a, "w", "k", time.Minute)
	release(t, a, g)
	v := admin.Get(bg, "lock:k").Val()
	require(t, strings.HasPrefix(v, "gone:"), "passed to %q", v)
	w.GrantedIn(soon)
}

// TestManyWaitersWithoutMessages: thousands of waiters that look for themselves have one
// budget, as their server has other work.
func TestManyWaitersWithoutMessages(t *testing.T) {
	servertest.Long(t)
	server := redistest.Start(t)
	s := open(t, as(t, server, aclKeys, aclCommands, "+info"), noPolling)
	const keys = 1_500 // which would look 15 000 times a second
	ctx, cancel := context.WithCancel(bg)
	admin := server.Client().Pipeline()
	for i := range keys {
		admin.Set(ctx, fmt.Sprint("lock:k", i), "holder:8000000000000000:0:1763683200000:60000:", time.Hour)
	}
	must(t, checktest.ErrorOf(admin.Exec(ctx)))
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	var queued atomic.Int64
	for i := range keys {
		all.Go(func() {
			req := request(fmt.Sprint("w", i), fmt.Sprint("k", i), time.Minute)
			req.Wait = true
			first := sync.OnceFunc(func() { queued.Add(1) })
			req.OnHeld = func(driver.HeldError) { first() }
			g, err := s.Acquire(ctx, req)
			check(t, err != nil, "granted %+v", g)
		})
	}
	eventually(t, 60*time.Second, "all are in line", func() bool { return queued.Load() == int64(keys) })
	time.Sleep(time.Second)                                     // for the looks that were due before the last one came
	looks := func() int64 { return server.Commands(t)["hset"] } // each renews a place in line
	before, began := looks(), time.Now()
	time.Sleep(3 * time.Second)
	n, took := looks()-before, time.Since(began)
	t.Logf("%d looks in %v", n, took)
	most := int64(2 * 1000 * took.Seconds())
	check(t, n <= most, "%d looks in %v, want %d at most", n, took, most)
	check(t, n >= 100, "%d looks in %v: nobody would come for its lock", n, took)
}

// subscribing is a client whose subscriptions take another way.
type subscribing struct {
	redis.UniversalClient
	messages redis.UniversalClient
}

func (s *subscribing) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return s.messages.Subscribe(ctx, channels...)
}
