package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

func inspect(t testing.TB, s *redisstore.Store, key string) driver.LockInfo {
	t.Helper()
	info, err := s.Inspect(within(t, time.Second), key)
	must(t, err)
	return info
}

// TestInspectForeignLocks: what other clients keep at a key is a holder without a token, which can be forced out.
func TestInspectForeignLocks(t *testing.T) {
	server, s := onDatabase(t)
	admin := server.Client()
	admin.Set(bg, "lock:foreign", "9f2c", 0)
	info := inspect(t, s, "foreign")
	check(t, len(info.Holders) == 1 && info.Holders[0].Owner == "9f2c" && info.Holders[0].Token == 0 && info.Holders[0].Left < 0, "%+v", info)
	holders, err := s.ForceRelease(bg, "foreign", "why")
	check(t, err == nil && len(holders) == 1 && holders[0].Owner == "9f2c", "%v, %v", holders, err)
	release(t, s, lease(t, s, "o", driver.Exclusive("foreign")))
	admin.HSet(bg, "lock:hash", "f", "v")
	wantIs(t, "Inspect", checktest.ErrorOf(s.Inspect(bg, "hash")), redisstore.ErrWrongType)
}

// TestReasonOfAForcedRelease is kept for an hour at most, and is that of the lease that was ended.
func TestReasonOfAForcedRelease(t *testing.T) {
	server, s := onDatabase(t)
	admin := server.Client()
	for _, c := range []driver.Claim{driver.Exclusive("x"), driver.Shared("s"), driver.Permit("p", 2)} {
		lease(t, s, "o", c)
		must(t, checktest.ErrorOf(s.ForceRelease(bg, c.Key, "why: because")))
		again := lease(t, s, "o", c)
		admin.Del(bg, "lock:"+c.Key)
		var loss *driver.LeaseLostError
		err := renew(t, s, again)
		check(t, errors.As(err, &loss) && loss.Reason == driver.LossTaken, "%v: %v", c, err)
		left := admin.PTTL(bg, "{lock:"+c.Key+"}:f").Val()
		check(t, left > 0 && left <= time.Hour, "the reason is kept for %v", left)
	}
}

// TestInspectorFails: an operator learns whether the key, the server or the store is at fault.
func TestInspectorFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client(once))
	for _, bad := range []string{"x", "a|x", "|", "|-1"} {
		_, _, err := s.List(within(t, time.Second), driver.Listing{Cursor: bad, Limit: 1, Records: true})
		wantIs(t, "the cursor "+bad, err, driver.ErrInvalidOption)
	}
	fail := func(when, key string, want error) {
		t.Helper()
		ctx := within(t, 50*time.Millisecond)
		_, ierr := s.Inspect(ctx, key)
		_, ferr := s.ForceRelease(ctx, key, "")
		_, rerr := s.Forget(ctx, key)
		all := []error{ierr, ferr, rerr}
		if key == "k" {
			_, _, err := s.List(ctx, driver.Listing{Limit: 1, Records: true})
			all = append(all, err)
		}
		for i, err := range all {
			check(t, errors.Is(err, want) && !errors.Is(err, context.DeadlineExceeded), "%s, call %d: want %v, got %v", when, i, want, err)
		}
	}
	fail("a wrong key", "a{b", driver.ErrInvalidKey)
	server.Pause()
	fail("a silent server", "k", driver.ErrUnavailable)
	server.Resume()
	server.Kill()
	fail("no server", "k", driver.ErrUnavailable)
	_ = s.Close()
	fail("a closed store", "k", driver.ErrClosed)
}

// trips counts the round trips of a client: a pipeline is one.
type trips struct {
	redistest.OnCommand
	n atomic.Int64
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}

// TestListOfAClusterInFewRoundTrips: the keys of a Cluster are in different slots, so each needs a
// command of its own. Those of a page go in one round trip to each master.
func TestListOfAClusterInFewRoundTrips(t *testing.T) {
	t.Parallel()
	servertest.Long(t)
	const keys = 600
	_, client := startCluster(t)
	s := open(t, client, noPolling)
	for i := range keys {
		lock(t, s, "o", fmt.Sprint("user:", i), time.Hour)
	}
	eng := engine(t, s)
	seen := new(trips)
	must(t, client.ForEachMaster(bg, func(_ context.Context, node *redis.Client) error {
		node.AddHook(seen)
		return nil
	}))
	n := 0
	for _, err := range eng.List(bg, "") {
		must(t, err)
		n++
	}
	// A page has about 100 keys: a SCAN or two, and a pipeline, or two where it goes on at the next master.
	check(t, n == keys && seen.n.Load() <= keys/10, "%d keys in %d round trips", n, seen.n.Load())
}

// The list of the keys that are held read all records of Once, only to leave them out: 38 s for a million.
func TestRecordsAreNotReadForAListOfLocks(t *testing.T) {
	server, s := onServer(t)
	const records = 300
	for i := range records {
		record(t, s, fmt.Sprint("o", i), fmt.Sprint("message:", i), "done")
	}
	lock(t, s, "o", "held", time.Minute)
	eng := engine(t, s)
	inspect(t, s, "held") // the server knows the script afterwards
	before := calls(t, server)
	n := 0
	for info, err := range eng.List(within(t, time.Minute), "") {
		n++
		check(t, err == nil && info.Key == "held", "%+v, %v", info, err)
	}
	scripts := calls(t, server) - before
	check(t, n == 1 && scripts == 1, "%d keys, by %d scripts", n, scripts)
	n = 0
	for range eng.ListAll(within(t, time.Minute), "") {
		n++
	}
	check(t, n == records+1, "%d keys with records", n)
}
