package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestNobodyWaitingCostsNoMessage is about redisson#3349 and #4216, too: pub/sub that every lock pays for.
func TestNobodyWaitingCostsNoMessage(t *testing.T) {
	server, s := onServer(t)
	g := lock(t, s, "holder", "k", time.Minute)
	for range 10 {
		held(t, s, driver.Exclusive("k"))
	}
	release(t, s, g)
	// One message at the start is to find out whether it may send any.
	c := server.Commands(t)
	check(t, c["publish"] <= 1 && c["subscribe"] == 0, "%d messages, %d subscriptions", c["publish"], c["subscribe"])
	// And however many wait for however many keys, one connection is enough.
	for i := range 30 {
		key := fmt.Sprint("k", i)
		lock(t, s, "holder", key, time.Minute)
		enqueue(t, s, fmt.Sprint("w", i), key, time.Minute)
	}
	wantEqual(t, "connections on which one process listens", subscribers(t, server), 1)
}

// TestIdleWaiterUnderFlushAll is about rueidis#372: FLUSHALL in a loop kept its
// waiters busy. Here, the lock is gone and the waiter has it.
func TestIdleWaiterUnderFlushAll(t *testing.T) {
	server, s := onServer(t, redisstore.WithWaiterLease(600*time.Millisecond))
	admin := server.Client()
	lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	before := calls(t, server)
	for range 50 {
		admin.FlushAll(bg)
	}
	w.GrantedIn(soon)
	n := calls(t, server) - before
	check(t, n <= 3, "%d requests for one grant", n)
}

// TestIdleWaiterIsQuiet is about rueidis#602, a waiter that spun.
func TestIdleWaiterIsQuiet(t *testing.T) {
	servertest.LongParallel(t)
	server, s := storeOn(t, redistest.Start(t)) // as it is by default
	lock(t, s, "holder", "k", time.Minute)
	enqueue(t, s, "w", "k", time.Minute)
	const watch = 4500 * time.Millisecond
	before, messages := calls(t, server), server.Commands(t)["publish"]
	time.Sleep(watch)
	n := calls(t, server) - before
	check(t, n <= 3, "an idle waiter sent %d requests in %v", n, watch)
	// Its process sends itself one message per second.
	said := server.Commands(t)["publish"] - messages
	check(t, said <= 5, "the process of an idle waiter sent %d messages in %v", said, watch)
	check(t, n >= 1, "an idle waiter gave no sign of life in %v, and counts as dead after 6 s", watch)
}

// Each question about a foreign value of a megabyte read and hashed the whole of it: some waiters
// for such keys kept the server from all others.
func TestLongForeignValueCostsLikeAShortOne(t *testing.T) {
	server, s := onServer(t)
	admin := server.Client()
	cost := func(key, value string) float64 {
		t.Helper()
		admin.Set(bg, "lock:"+key, value, time.Minute)
		before := scriptTime(t, server)
		for range 50 {
			wantIs(t, "Acquire", checktest.ErrorOf(s.Acquire(bg, request("o", key, time.Minute))), driver.ErrHeld)
		}
		return scriptTime(t, server) - before
	}
	cost("warm", "x")
	short, long := cost("short", "somebody else"), cost("long", strings.Repeat("x", 1<<20))
	check(t, long <= 10*short, "50 questions about a long value took %.0f µs, about a short one %.0f µs", long, short)
}

var statLine = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)`)

// scriptTime is how many µs the server has spent in scripts.
func scriptTime(t testing.TB, server *redistest.Server) (micros float64) {
	t.Helper()
	for _, m := range statLine.FindAllStringSubmatch(server.Client().Info(within(t, 5*time.Second), "commandstats").Val(), -1) {
		us, _ := strconv.ParseFloat(m[1], 64)
		micros += us
	}
	return micros
}

// TestReleaseOfAWantedLease: a server writes its answer to a release before the message to the waiter,
// unless it had something for the releaser already. So the release of a lease that others wait for
// leaves behind a PING, in the same write. Other releases do not pay for that.
func TestReleaseOfAWantedLease(t *testing.T) {
	server, s := onServer(t, noPolling)
	pings := func() int64 { return server.Commands(t)["ping"] }
	first := lock(t, s, "first", "k", time.Minute)
	w := enqueue(t, s, "next", "k", time.Minute)
	before := pings()
	release(t, s, first)
	next := w.Granted()
	n := pings() - before
	require(t, n == 0 && next.Contended, "%d pings with the release of a lease that nobody waited for when it was granted; the next is contended: %v", n, next.Contended)
	release(t, s, next)
	wanted := pings() // more than one if the machine is so slow that the request was sent again
	release(t, s, lock(t, s, "alone", "k", time.Minute))
	n = pings() - wanted
	check(t, wanted != before && n == 0, "%d pings with the release of a lease that is wanted, want 1; %d with one that is not", wanted-before, n)
}

// A batch of 500 messages, half of them repeated, takes a few round trips. A loop takes 750.
// It does not run beside others: on a busy machine the requests come one by one, and none waits for company.
func TestOnceEachTakesFewRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	eng := engine(t, open(t, server.Client()))
	ctx := within(t, 30*time.Second)
	items := make([]core.Item, 500)
	run := func(from, want int) {
		t.Helper()
		for i := range items {
			items[i].Key = fmt.Sprint("msg:", from+i)
		}
		must(t, eng.OnceEach(ctx, items, func(_ context.Context, fresh []int) error {
			for _, i := range fresh {
				items[i].Result = []byte(items[i].Key)
			}
			wantEqual(t, "ran", len(fresh), want)
			return nil
		}))
		for _, item := range items {
			check(t, item.Err == nil && string(item.Result) == item.Key, "%+v", item)
		}
	}
	run(0, 500)
	before := calls(t, server)
	run(250, 250)
	trips := calls(t, server) - before
	check(t, trips <= 100, "%d round trips", trips)
}
