package send

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/internal/onredis"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
)

// is checks how the text of got begins.
func is(t testing.TB, what string, got any, want string) {
	t.Helper()
	check(t, strings.HasPrefix(fmt.Sprint(got), want), "%s: %v, want %s", what, got, want)
}

// connected is a sender to a server of its own.
func connected(t *testing.T) (context.Context, *redis.Client, *Sender) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	client := redistest.Start(t).Client()
	var tasks sync.WaitGroup
	t.Cleanup(tasks.Wait)
	return ctx, client, New(Config{Client: client, Names: script.NewNames("lock:", script.Single), Life: ctx, Go: tasks.Go})
}

// ask is a question for a lease of a minute.
func ask(s *Sender, owner string, inbox string, claims ...driver.Claim) *Request {
	r := new(Request)
	s.Names.Acquire(&r.Call, script.Acquire{
		Owner: owner, Claims: claims, TTL: time.Minute, Notes: onredis.Notes(time.Minute, "rule", "trace"),
		Wait: inbox != "", WaiterLease: time.Minute, ClaimTime: time.Minute, Question: 7, Inbox: inbox,
	})
	return r
}

func free(s *Sender, owner, key string) *Request { return release(s, owner, driver.Exclusive(key)) }

func release(s *Sender, owner string, claim driver.Claim) *Request {
	r := new(Request)
	s.Names.Release(&r.Call, owner, []driver.Claim{claim}, 0)
	return r
}

// answered sends r, which must succeed.
func answered(ctx context.Context, t *testing.T, s *Sender, r *Request) *Request {
	t.Helper()
	require(t, s.Await(ctx, nil, r.Alone()) && r.Err == nil, "%v", r.Err)
	return r
}

// TestPlainRequestsAmongOthers puts requests into one batch whose outcome depends
// on those before: on a line that begins there, and on a counter that is written
// by others, too. The counter is ahead of the clock, so that the tokens are known.
func TestPlainRequestsAmongOthers(t *testing.T) {
	t.Parallel()
	ctx, client, s := connected(t)
	const count = 8000000000000000
	client.Set(ctx, s.Names.Counter(), count, 0)
	batch := []*Request{
		ask(s, "a", "", driver.Exclusive("k")),
		ask(s, "permit", "", driver.Permit("p", 2)),
		ask(s, "a", "", driver.Exclusive("k")),                 // again: the same
		ask(s, "b", s.Names.NewInbox(), driver.Exclusive("k")), // gets in line
		ask(s, "c", "", driver.Exclusive("k2")),
		free(s, "x", "k2"), // the others come behind those that end something
		free(s, "y", "k3"),
		free(s, "z", "k4"),
	}
	answered(ctx, t, s, ask(s, "z", "", driver.Exclusive("k4")))
	s.sendGroup(batch)
	want := []string{
		"8000000000000002",
		"[granted 8000000000000006 0 0]", // three were counted for those that went the long way
		"[granted 8000000000000002",
		"[held 0 a:8000000000000002:",
		"8000000000000003",
		"[0]",
		"[0]",
		"1",
	}
	for i, r := range batch {
		must(t, r.Err)
		is(t, fmt.Sprint("request ", i), r.Value, want[i])
		check(t, r.Attempts.Possible() == 1 && time.Since(r.Attempts.Last) <= time.Minute, "request %d: %+v", i, r.Attempts)
	}
	is(t, "the counter", client.Get(ctx, s.Names.Counter()).Val(), fmt.Sprint(count+6))
	v := client.Get(ctx, "lock:k").Val()
	check(t, strings.HasSuffix(v, ":rule|trace"), "the lock is %s", v)
}

// TestRequestsShareAWrite: as for a master of a Cluster, each has a script and an answer of its own. If the
// server has forgotten the scripts, all are sent again, in full and in the same order.
func TestRequestsShareAWrite(t *testing.T) {
	t.Parallel()
	ctx, client, s := connected(t)
	all := []*Request{
		ask(s, "a", "", driver.Exclusive("k")),
		ask(s, "b", "", driver.Exclusive("k")),
		ask(s, "c", "", driver.Exclusive("k2")),
		free(s, "d", "k3"),
	}
	client.ScriptFlush(ctx)
	err := s.write(ctx, client, all)
	require(t, script.Unknown(err), "the first write: %v", err)
	again, wait := unfinished(all)
	require(t, slices.Equal(again, all) && !wait, "%d of %d are sent again, after a pause: %v", len(again), len(all), wait)
	must(t, s.write(ctx, client, all))
	for i, want := range []string{"1", "[held 0 a:", "1", "[0]"} {
		must(t, all[i].Err)
		is(t, fmt.Sprint("request ", i), all[i].Value, want)
		check(t, all[i].Attempts.Possible() == 1, "request %d: %+v", i, all[i].Attempts)
	}
	stats := client.Info(ctx, "commandstats").Val()
	check(t, strings.Contains(stats, "cmdstat_eval:calls=4,"), "the server has run:\n%s", stats)
}

// TestReleaseTwiceInOneBatch: what was passed to the next one in the same breath is
// not the owner's any more; and where nobody can be told it is nobody's.
func TestReleaseTwiceInOneBatch(t *testing.T) {
	t.Parallel()
	ctx, client, s := connected(t)
	inbox := s.Names.NewInbox()
	listener := client.Subscribe(ctx, inbox)
	defer listener.Close()
	_, err := listener.Receive(ctx)
	must(t, err)
	send := func(batch ...*Request) (said []any) {
		must(t, s.runBatch(ctx, batch))
		for _, r := range batch {
			said = append(said, r.Value)
		}
		return said
	}
	const count = 8000000000000000 // ahead of the clock
	client.Set(ctx, s.Names.Counter(), count, 0)
	send(ask(s, "a", "", driver.Exclusive("k")), ask(s, "x", "", driver.Exclusive("l")), ask(s, "m", "", driver.Exclusive("m")))
	send(ask(s, "b", inbox, driver.Exclusive("k")), ask(s, "y", s.Names.NewInbox(), driver.Exclusive("l")))
	send(ask(s, "c", inbox, driver.Exclusive("k")), ask(s, "dead", inbox, driver.Exclusive("m")))
	send(ask(s, "n", inbox, driver.Exclusive("m")))
	entry := client.HGet(ctx, "{lock:m}:w", "dead").Val()
	client.HSet(ctx, "{lock:m}:w", "dead", expired(entry))
	said := send(free(s, "a", "k"), free(s, "x", "l"), free(s, "a", "k"), free(s, "m", "m"))
	is(t, "the releases", said, "[1 1 [0] 1]")
	is(t, "the holder of k", client.Get(ctx, "lock:k").Val(), "b:8000000000000004:")
	is(t, "the holder of m", client.Get(ctx, "lock:m").Val(), "n:8000000000000005:")
	is(t, "the counter", client.Get(ctx, s.Names.Counter()).Val(), fmt.Sprint(count+5))
	is(t, "in line for k", client.LRange(ctx, "{lock:k}:q", 0, -1).Val(), "[c]")
	is(t, "holders of l, which nobody can be told of", client.Exists(ctx, "lock:l").Val(), "0")
	is(t, "in line for l", client.LRange(ctx, "{lock:l}:q", 0, -1).Val(), "[y]")
	msg, err := listener.ReceiveMessage(ctx)
	must(t, err)
	is(t, "the message", msg.Payload, "b 7 8")
}

// expired is a waiter's entry whose time was over long ago.
func expired(entry string) string {
	fields := strings.SplitN(entry, " ", 3) // version, expires, the rest
	return fields[0] + " 1 " + fields[2]
}
