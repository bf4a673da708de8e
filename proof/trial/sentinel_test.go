package trial

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/work"
)

var must = checktest.Must

// onServers has start start servers, which end with the test. The short run has no such tests: they wait for
// failovers.
func onServers(t *testing.T, start func(run *redistest.Run)) {
	t.Helper()
	servertest.Long(t)
	run := &redistest.Run{}
	t.Cleanup(func() {
		if err := run.End(); err != nil {
			t.Error(err)
		}
	})
	must(t, run.Catch(func() { start(run) }))
}

// startSentinel starts the servers of a trial behind Sentinel.
func startSentinel(t *testing.T) (b *sentinel) {
	t.Helper()
	onServers(t, func(run *redistest.Run) { b = newSentinel(run, Config{Processes: 1}).(*sentinel) })
	return b
}

// TestSentinelServesWhereItPoints: a replica that takes writes serves nobody before the Sentinel
// names it. When the probe asked all nodes instead, histories said that the store granted nothing for
// seconds although the servers served: the Sentinel had promoted a replica, and then given up.
func TestSentinelServesWhereItPoints(t *testing.T) {
	b := startSentinel(t)
	ctx := t.Context()
	serves := func() bool { return b.probe(ctx, 0) == nil }
	checktest.Eventually(t, "the master serves", serves)
	// From now on the Sentinel notices nothing.
	must(t, b.s.Sentinel.Client().Do(ctx, "sentinel", "set", redistest.MasterName, "down-after-milliseconds", time.Hour.Milliseconds()).Err())
	b.s.Nodes[0].Pause()
	replica := b.s.Nodes[1].Client()
	must(t, replica.Do(ctx, "replicaof", "no", "one").Err())
	checktest.Eventually(t, "the replica takes writes", func() bool { return takes(ctx, b.clients[1], probeKey, 0) == nil })
	if serves() {
		t.Error("a node serves that the Sentinel does not name")
	}
	b.s.Nodes[0].Resume()
	checktest.Eventually(t, "the master serves again", serves)
}

// TestTakeoverLastsUntilTheOldMasterStops: a master that was replaced, and that nobody has stopped,
// grants leases to clients that still reach it. A takeover that ended when the Sentinel named the
// new master would leave leases unforgiven that were granted after that, and lost.
func TestTakeoverLastsUntilTheOldMasterStops(t *testing.T) {
	b := startSentinel(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	took := make(chan []Struck, 1)
	go func() { took <- b.takeovers(ctx) }()
	began := work.Monotonic()
	if !b.failover(ctx, 0) {
		t.Fatal("the Sentinel makes no other node the master")
	}
	var last int64 // when the old master took a write
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		asked := work.Monotonic()
		err := b.s.Nodes[0].Client().Set(ctx, probeKey, "1", time.Second).Err()
		if redis.HasErrorPrefix(err, "READONLY") {
			break
		}
		if err == nil {
			last = asked
		}
		if time.Now().After(end) {
			t.Fatalf("the old master takes writes for ever: %v", err)
		}
	}
	stop()
	all := <-took
	if len(all) != 1 || all[0].From > began || all[0].To < last || !all[0].Loses {
		t.Errorf("%+v; the failover began at %d, and the old master took a write at %d", all, began, last)
	}
}
