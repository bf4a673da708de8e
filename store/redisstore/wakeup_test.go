package redisstore_test

import (
	"slices"
	"testing"
	"time"

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
	pipe := server.Client().TxPipeline()
	queue, waiters := pipe.LLen(bg, "{lock:"+key+"}:q"), pipe.HKeys(bg, "{lock:"+key+"}:w")
	must(t, errOf(pipe.Exec(bg)))
	owners := slices.DeleteFunc(waiters.Val(), func(field string) bool { return field == ":foreign" })
	if queue.Val() != int64(len(owners)) {
		t.Fatalf("%d owners are in the queue and %d among the waiters", queue.Val(), len(owners))
	}
	return queue.Val()
}

// TestHalfOpenSubscription: nothing is heard, and nothing says that the connection is dead. For those who release, its
// process would be there for ever. The engine is told why messages do not arrive, and when they arrive again.
func TestHalfOpenSubscription(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server, network := proxied(t)
	s := open(t, &subscribing{UniversalClient: server.Client(), messages: throughProxy(server, network)}, noPolling)
	told, late := make(chan error, 16), make(chan error, 16)
	s.Describe().OnImpaired(func(reason error) { told <- reason })
	lock(t, s, "holder", "k", time.Minute)
	enqueue(t, s, "w", "k", time.Minute)
	wantEqual(t, "subscriptions", subscribers(t, server), 1)
	network.Blackhole()
	eventually(t, 5*time.Second, "the dead connection is given up", func() bool { return subscribers(t, server) == 0 })
	check(t, arrives(t, told) != nil, "told that all is well")
	s.Describe().OnImpaired(func(reason error) { late <- reason })
	check(t, arrives(t, late) != nil, "who comes late is not told")
	network.Heal()
	eventually(t, 15*time.Second, "there is a new one", func() bool { return subscribers(t, server) == 1 })
	for arrives(t, late) != nil {
	}
}
