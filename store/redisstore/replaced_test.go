//go:build unix

package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// TestReplacedMasterThatStillAnswers: a Sentinel makes a replica the master although the old master and
// its clients are well, as in a planned failover. The Sentinel names the new master at once to
// clients that ask. It tells the others when all replicas follow the new master, and one of them
// hangs here. go-redis asks whenever it connects, so a client whose connections end soon leaves
// the old master soon. Without that setting the two hold the lease until failover-timeout.
func TestReplacedMasterThatStillAnswers(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	const failoverTimeout = 20 * time.Second
	ctx := within(t, time.Minute)
	s := redistest.StartSentinel(t, 2, time.Minute)
	ask := func(args ...any) {
		t.Helper()
		must(t, s.Sentinel.Client().Do(ctx, args...).Err())
	}
	ask("sentinel", "set", redistest.MasterName, "failover-timeout", failoverTimeout.Milliseconds())
	s.Nodes[2].Pause()
	defer s.Nodes[2].Resume()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr()})
	defer sentinel.Close()
	eventually(t, 30*time.Second, "the Sentinel would not promote the replica that hangs", func() bool {
		for _, r := range sentinel.Replicas(ctx, redistest.MasterName).Val() {
			if silent, _ := strconv.Atoi(r["last-ok-ping-reply"]); silent > 6000 { // the limit is 5 s
				return true
			}
		}
		return false
	})
	inside := engine(t, open(t, s.Client(func(o *redis.FailoverOptions) { o.ConnMaxLifetime = time.Second })), core.WithTTL(3*time.Second))
	old := acquire(t, inside, "k")

	ask("sentinel", "failover", redistest.MasterName)
	if s.AwaitFailover(t, 0) != 1 {
		t.Fatal("the wrong replica was promoted")
	}
	named := time.Now()
	must(t, s.Nodes[1].Client().Del(ctx, "lock:k").Err()) // as if it had been granted a moment later
	next := acquire(t, engine(t, open(t, s.Client()), core.WithTTL(3*time.Second)), "k")
	check(t, next.Token() > old.Token(), "token %d follows %d", next.Token(), old.Token())
	<-old.Done()
	both := time.Since(named)
	check(t, both <= failoverTimeout/2, "two held it for %v", both)
	_ = next.Release(bg)
}
