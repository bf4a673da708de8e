package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestKilledHeadOfLine: the server sees that nobody listens any more.
func TestKilledHeadOfLine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := open(t, server.Client()), open(t, server.Client())
	g := lock(t, a, "holder", "k", time.Minute)
	head := startProcess(t, server, "k", time.Minute)
	head.says("queued", startup)
	second := enqueue(t, b, "second", "k", time.Minute)
	head.kill()
	eventually(t, soon, "the server notices", func() bool {
		return subscribers(t, server) == 1
	})
	release(t, a, g)
	second.granted(500 * time.Millisecond)
}

// TestSilentHeadOfLine has a head that the server takes for connected, and of
// which nothing has been heard for longer than its waiter lease.
func TestSilentHeadOfLine(t *testing.T) {
	t.Parallel()
	const patience = 300 * time.Millisecond
	for name, opts := range map[string][]redisstore.Option{
		"the next one looks":   {redisstore.WithWaiterLease(patience)},
		"the release finds it": {noPolling},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			server := database(t)
			admin := server.Client()
			network := servertest.NewProxy(t, server.Addr())
			a, b := open(t, server.Client()), open(t, server.Client(), opts...)
			silent := open(t, throughProxy(server, network), redisstore.WithWaiterLease(patience))
			g := lock(t, a, "holder", "k", time.Minute)
			enqueue(t, silent, "silent", "k", time.Minute)
			network.Blackhole()
			second := enqueue(t, b, "second", "k", time.Minute)
			eventually(t, 5*time.Second, "the head's place is over", func() bool {
				entry := strings.Fields(admin.HGet(ctx, "{lock:k}:w", "silent").Val())
				if len(entry) < 2 {
					return true
				}
				n, err := strconv.ParseInt(entry[1], 10, 64)
				return err != nil || n < admin.Time(ctx).Val().UnixMilli()
			})
			if name == "the next one looks" {
				eventually(t, 5*time.Second, "only the second is in line", func() bool { return waiting(t, server, "k") == 1 })
			}
			release(t, a, g)
			if has := admin.Get(ctx, "lock:k").Val(); !strings.HasPrefix(has, "second:") {
				t.Errorf("the lock was passed to %q", has)
			}
			release(t, b, second.granted(soon))
			network.Heal()
		})
	}
}

// TestPatientWaiterKeepsItsPlace when one that waits for less comes and goes.
func TestPatientWaiterKeepsItsPlace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := database(t)
	admin := server.Client()
	patient, hasty := open(t, server.Client(), noPolling), open(t, server.Client(), redisstore.WithWaiterLease(100*time.Millisecond))
	g := lock(t, patient, "holder", "k", time.Minute)
	w := enqueue(t, patient, "patient", "k", time.Minute)
	gone := enqueue(t, hasty, "hasty", "k", time.Minute)
	gone.cancel()
	gone.refused(soon)
	for _, key := range []string{"{lock:k}:q", "{lock:k}:w"} {
		if left := admin.PTTL(ctx, key).Val(); left < time.Minute {
			t.Errorf("%s is forgotten in %v, while one who is patient for 2 min waits", key, left)
		}
	}
	release(t, patient, g)
	release(t, patient, w.granted(soon))
}
