//go:build unix

package redisstore_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestPartition: a master behind Sentinel is cut off together with a client that holds
// a lock. A replica takes over, and somebody else gets the lock there.
func TestPartition(t *testing.T) {
	servertest.LongParallel(t)
	const ttl = 3 * time.Second
	const downAfter = time.Second
	lag := []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"}
	type row struct {
		servers []string
		store   []redisstore.Option
		overlap time.Duration // of both holders, at most; below 0: without end
	}
	checktest.Each(t, map[string]row{
		// What holds without any of the settings shows that the others do something.
		"no setting":   {nil, nil, -1},
		"WithReplicas": {nil, []redisstore.Option{redisstore.WithReplicas(1, 200*time.Millisecond)}, 0},
		// Some 2 s where nothing else runs: the server's own count of the lag.
		"min-replicas": {lag, nil, 4 * time.Second},
		"both":         {lag, []redisstore.Option{redisstore.WithReplicas(1, 200*time.Millisecond)}, 0},
	}, func(t *testing.T, c row) {
		s := redistest.StartSentinel(t, 2, downAfter, c.servers...)
		inside, outside := engine(t, open(t, s.Nodes[0].Client(), c.store...), core.WithTTL(ttl)), engine(t, open(t, s.Client()), core.WithTTL(ttl))
		var old *core.Lease
		// On a busy machine the replica may need longer for its answer than the store waits.
		eventually(t, 10*time.Second, "a replica confirms the first lease", func() (ok bool) {
			var err error
			old, err = inside.Acquire(t.Context(), "k")
			require(t, err == nil || errors.Is(err, redisstore.ErrNoReplicas) || errors.Is(err, core.ErrHeld), "%v", err)
			return err == nil
		})
		s.Nodes[0].Client().Wait(t.Context(), 1, 5*time.Second) // it is not about the last write

		s.Ways[0].Blackhole()
		cut := time.Now()
		got := make(chan time.Time, 1)
		go func() {
			for time.Since(cut) < 25*time.Second { // the first tries may find the old master silent
				l, err := outside.Acquire(bg, "k")
				if err != nil {
					time.Sleep(20 * time.Millisecond)
					continue
				}
				got <- time.Now()
				check(t, l.Token() > old.Token(), "token %d follows %d", l.Token(), old.Token())
				return
			}
		}()
		if c.overlap < 0 {
			arrives(t, got)
			select {
			case <-old.Done():
				t.Errorf("the old holder lost it %v after the cut", time.Since(cut))
			case <-time.After(2 * ttl):
			}
			_ = old.Release(t.Context())
			return
		}
		lostAt := make(chan time.Time, 1)
		go func() {
			<-old.Done()
			lostAt <- time.Now()
		}()
		lost, taken := arrives(t, lostAt), arrives(t, got)
		t.Logf("lost after %v, taken on the other side after %v", lost.Sub(cut), taken.Sub(cut))
		overlap := lost.Sub(taken)
		check(t, overlap <= c.overlap, "two held it for %v", overlap)
		held := lost.Sub(cut)
		check(t, c.overlap != 0 || held <= ttl, "the old holder held it for %v", held)
		_ = old.Release(t.Context())
	})
}

// TestReplacedMasterThatStillAnswers: a Sentinel makes a replica the master although the old master and
// its clients are well, as in a planned failover. The Sentinel names the new master at once to
// clients that ask. It tells the others when all replicas follow the new master, and one of them
// hangs here. go-redis asks whenever it connects, so a client whose connections end soon leaves
// the old master soon. Without that setting the two hold the lease until failover-timeout.
func TestReplacedMasterThatStillAnswers(t *testing.T) {
	servertest.LongParallel(t)
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
	require(t, s.AwaitFailover(t, 0) == 1, "the wrong replica was promoted")
	named := time.Now()
	must(t, s.Nodes[1].Client().Del(ctx, "lock:k").Err()) // as if it had been granted a moment later
	next := acquire(t, engine(t, open(t, s.Client()), core.WithTTL(3*time.Second)), "k")
	check(t, next.Token() > old.Token(), "token %d follows %d", next.Token(), old.Token())
	<-old.Done()
	both := time.Since(named)
	check(t, both <= failoverTimeout/2, "two held it for %v", both)
	_ = next.Release(bg)
}
