package redisstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestSubscriptionOnAReplica: after a failover the subscription of a process may still lead to the old
// master, which is a replica now and passes on the messages of the new one. PUBLISH on the master
// does not count that subscriber. The scripts took its process for dead after they had sent it the
// lock, and gave the lock to the next waiter, too: both held it.
func TestSubscriptionOnAReplica(t *testing.T) {
	long(t)
	t.Parallel()
	for name, claim := range map[string]driver.Claim{"exclusive": driver.Exclusive("k"), "permit": driver.Permit("k", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, moved := startMovedSubscription(t)
			stays := open(t, master.Client(), noPolling)
			g := lease(t, stays, "holder", claim)
			a, b := enqueueFor(t, moved, "a", claim), enqueueFor(t, stays, "b", claim)
			release(t, stays, g)
			select {
			case <-a.done:
				g = a.grant
			case <-b.done:
				g = b.grant
			case <-time.After(10 * time.Second):
				t.Fatal("nobody has the lock")
			}
			time.Sleep(200 * time.Millisecond) // for the other one
			if isDone(a) && isDone(b) {
				t.Fatal("two hold the lock")
			}
			// Soon the subscription leads to the master, and its process has its turns again.
			release(t, stays, g)
			a.granted(20 * time.Second)
		})
	}
}

// startMovedSubscription opens a store whose requests go to the master, and whose subscription leads
// to its replica.
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
	enqueue(t, s, "subscribes", "before", time.Minute).cancel()
	release(t, s, first)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	cli(t, old, "OK", "REPLICAOF", host, port)
	at.Store(master.Addr())
	eventually(t, 10*time.Second, "the old master is a replica", func() bool {
		return master.Client().Wait(context.Background(), 1, time.Second).Val() == 1
	})
	return master, s
}

func isDone(w *waiter) bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
