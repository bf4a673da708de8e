package redisstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/storetest"
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
	pipe := server.Client().TxPipeline()
	queue, waiters := pipe.LLen(bg, "{lock:"+key+"}:q"), pipe.HKeys(bg, "{lock:"+key+"}:w")
	must(t, checktest.ErrorOf(pipe.Exec(bg)))
	owners := slices.DeleteFunc(waiters.Val(), func(field string) bool { return field == ":foreign" })
	if queue.Val() != int64(len(owners)) {
		t.Fatalf("%d owners are in the queue and %d among the waiters", queue.Val(), len(owners))
	}
	return queue.Val()
}

// quickLooks is for where no message comes.
var quickLooks = redisstore.WithWaiterLease(900 * time.Millisecond)

// enqueue has owner wait for key and returns once it is in line.
func enqueue(t testing.TB, s driver.Store, owner, key string, ttl time.Duration) *storetest.Waiting {
	t.Helper()
	return storetest.Enqueue(t, s, request(owner, key, ttl))
}

// enqueueFor has owner wait for claims and returns once it is in line.
func enqueueFor(t testing.TB, s driver.Store, owner string, claims ...driver.Claim) *storetest.Waiting {
	t.Helper()
	return storetest.Enqueue(t, s, claiming(owner, claims...))
}

// executing asks for an execution where others ask for a lease.
type executing struct{ driver.Store }

func (e executing) Acquire(ctx context.Context, req driver.Request) (driver.Grant, error) {
	g, _, err := e.Begin(ctx, req)
	return g, err
}

// TestToldOfOthersThanTheNext: a reader learns when a released lease ends, and an execution of the record although
// somebody else is in front.
func TestToldOfOthersThanTheNext(t *testing.T) {
	t.Parallel()
	s := open(t, database(t).Client(), noPolling)
	g := lock(t, s, "holder", "stays", time.Minute)
	reader := enqueueFor(t, s, "reader", driver.Shared("stays"))
	g.MinHold = 100 * time.Millisecond
	release(t, s, g)
	reader.Granted()

	g = lock(t, s, "holder", "k", time.Minute)
	enqueue(t, s, "plain", "k", time.Minute)
	execution := enqueue(t, executing{s}, "execution", "k", time.Minute)
	must(t, s.Complete(within(t, time.Second), g, driver.Record{}, time.Minute))
	check(t, execution.Granted().Token == 0, "it runs again")
}
