//go:build unix

package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestSilentFailover: the master goes silent without closing a connection, and a
// Sentinel has a replica take over. Subscriptions that stay behind on the old master
// would go unnoticed for a long time; full service is back within seconds.
func TestSilentFailover(t *testing.T) {
	long(t)
	sentinel := redistest.StartSentinel(t, 1, 500*time.Millisecond)
	var stores []*redisstore.Store
	for range 4 {
		stores = append(stores, open(t, sentinel.Client()))
	}
	f := startFleet(t, "k", stores...)
	f.over(500 * time.Millisecond)
	_, well := f.over(2 * time.Second)
	sentinel.Nodes[0].Pause()
	sentinel.AwaitFailover(t, 0)
	over := time.Now()
	for {
		each, all := f.over(500 * time.Millisecond)
		t.Logf("%4.1f s after the failover: %v grants in 0.5 s; before, %d", time.Since(over).Seconds(), each, well/4)
		if all > well/12 && slices.Min(each) > all/20 {
			break // for all of them
		}
		if time.Since(over) > 5*time.Second {
			t.Fatal("no full service yet")
		}
	}
}
