//go:build unix

package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestInboxLeavesADeadNode: the node of a Cluster that has the subscription goes silent.
// The locks on the others are as well as before, and so are their messages: the inbox
// moves to one of them. It used to stay.
func TestInboxLeavesADeadNode(t *testing.T) {
	long(t)
	t.Parallel()
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
		n := int(client.ClusterKeySlot(context.Background(), "lock:"+key).Val()) * len(servers) / 16384
		if n != home && !waiting[n] {
			waiting[n] = true
			lock(t, s, "holder", key, time.Minute)
			enqueue(t, s, "waiter-"+key, key, time.Minute)
		}
	}
	servers[home].Pause()
	began := time.Now()
	t.Cleanup(servers[home].Resume)
	for moved := false; !moved; time.Sleep(50 * time.Millisecond) {
		for i, server := range servers {
			moved = moved || i != home && subscribers(t, server) > 0
		}
		if time.Since(began) > 25*time.Second {
			t.Fatal("the inbox has not moved")
		}
	}
	t.Logf("after %v", time.Since(began))
}
