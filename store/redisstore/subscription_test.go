//go:build unix

package redisstore_test

import (
	"context"
	"fmt"
	"net"
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

// TestLostSubscription is about redisson#3891 and rueidis#653: a wake-up missed
// while the connection was down, and a sleep until the TTL.
func TestLostSubscription(t *testing.T) {
	server, a := onServer(t, noPolling)
	b := open(t, server.Client(), noPolling)
	admin := server.Client()
	lock(t, a, "holder", "k", time.Minute)
	w := enqueue(t, b, "w", "k", time.Minute)
	// In one go, so that the release finds nobody listening.
	pipe := admin.TxPipeline()
	pipe.Do(bg, "client", "kill", "type", "pubsub")
	pipe.Del(bg, "lock:k")
	must(t, checktest.ErrorOf(pipe.Exec(bg)))
	w.GrantedIn(soon)
	// And the next one gets its message again.
	g := lock(t, a, "holder2", "k2", time.Minute)
	w = enqueue(t, b, "w2", "k2", time.Minute)
	release(t, a, g)
	w.GrantedIn(soon)
}

// TestSubscriptionOnAReplica: after a failover the subscription of a process may still lead to the old
// master, which is a replica now and passes on the messages of the new one. PUBLISH on the master
// does not count that subscriber. The scripts took its process for dead after they had sent it the
// lock, and gave the lock to the next waiter, too: both held it.
func TestSubscriptionOnAReplica(t *testing.T) {
	servertest.LongParallel(t)
	checktest.Each(t, map[string]driver.Claim{"exclusive": driver.Exclusive("k"), "permit": driver.Permit("k", 1)}, func(t *testing.T, claim driver.Claim) {
		master, moved := startMovedSubscription(t)
		stays := open(t, master.Client(), noPolling)
		g := lease(t, stays, "holder", claim)
		a, b := enqueueFor(t, moved, "a", claim), enqueueFor(t, stays, "b", claim)
		release(t, stays, g)
		select {
		case <-a.Answered():
			g = a.Granted()
		case <-b.Answered():
			g = b.Granted()
		case <-time.After(10 * time.Second):
			t.Fatal("nobody has the lock")
		}
		time.Sleep(200 * time.Millisecond) // for the other one
		require(t, !a.IsAnswered() || !b.IsAnswered(), "two hold the lock")
		// Soon the subscription leads to the master, and its process has its turns again.
		release(t, stays, g)
		a.GrantedIn(20 * time.Second)
	})
}

// startMovedSubscription opens a store whose requests go to the master, and whose subscription leads to its replica.
func startMovedSubscription(t *testing.T) (master *redistest.Server, s *redisstore.Store) {
	t.Helper()
	old, master := redistest.Start(t), redistest.Start(t, "--repl-diskless-sync-delay", "0")
	var at atomic.Value // where connections lead
	at.Store(old.Addr())
	client := redis.NewClient(&redis.Options{Addr: old.Addr(), Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at.Load().(string))
	}})
	t.Cleanup(func() { _ = client.Close() })
	s = open(t, client, noPolling)
	first := lock(t, s, "first", "before", time.Minute)
	enqueue(t, s, "subscribes", "before", time.Minute).Cancel()
	release(t, s, first)
	host, port, _ := net.SplitHostPort(master.Addr())
	cli(t, old, "OK", "REPLICAOF", host, port)
	at.Store(master.Addr())
	eventually(t, 10*time.Second, "the old master is a replica", func() bool {
		return master.Client().Wait(bg, 1, time.Second).Val() == 1
	})
	return master, s
}

// TestInboxLeavesADeadNode: the node of a Cluster that has the subscription goes silent. The locks on the others are as
// well as before, and so are their messages: the inbox moves to one of them. It used to stay.
func TestInboxLeavesADeadNode(t *testing.T) {
	servertest.LongParallel(t)
	servers, client := startCluster(t)
	s := open(t, client, noPolling)
	lock(t, s, "holder", "first", time.Minute)
	enqueue(t, s, "waiter", "first", time.Minute)
	home := -1
	eventually(t, 5*time.Second, "one node has the subscription", func() bool {
		for i, server := range servers {
			if subscribers(t, server) > 0 {
				home = i
			}
		}
		return home >= 0
	})
	// Somebody waits for a key of each node that stays.
	waiting := make([]bool, len(servers))
	for i := range 100 {
		key := fmt.Sprint("k", i)
		n := int(client.ClusterKeySlot(bg, "lock:"+key).Val()) * len(servers) / 16384
		if n != home && !waiting[n] {
			waiting[n] = true
			lock(t, s, "holder", key, time.Minute)
			enqueue(t, s, "waiter-"+key, key, time.Minute)
		}
	}
	servers[home].Pause()
	t.Cleanup(servers[home].Resume)
	eventually(t, 25*time.Second, "the inbox moves", func() bool {
		for i, server := range servers {
			if i != home && subscribers(t, server) > 0 {
				return true
			}
		}
		return false
	})
}

// TestHalfOpenSubscription: nothing is heard, and nothing says that the connection is dead. For those who release, its
// process would be there for ever. The engine is told why messages do not arrive, and when they arrive again.
func TestHalfOpenSubscription(t *testing.T) {
	servertest.LongParallel(t)
	server, network := proxied(t, redistest.Start(t))
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
