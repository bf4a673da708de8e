//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// failover is a Cluster of which the first master fails, and an engine on it.
type failover struct {
	t        *testing.T
	masters  []*redistest.Server
	replicas []*redistest.Server
	eng      *core.Engine
	keys     [][]string // by master
}

// startFailover runs three masters with a replica each. A key of a slot that nobody
// serves is no reason not to serve the others.
func startFailover(t *testing.T) *failover {
	t.Helper()
	args := []string{"--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"}
	f := &failover{t: t, masters: redistest.StartCluster(t, 3, args...)}
	f.replicas = redistest.AddReplicas(t, f.masters, args...)
	var addrs []string
	for _, m := range f.masters {
		addrs = append(addrs, m.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(client, silent)
	if err != nil {
		t.Fatal(err)
	}
	f.eng, err = core.New(store, core.WithMaxWait(time.Second), core.WithReleaseTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.eng.Close(context.Background()) })
	f.keys = make([][]string, len(addrs))
	for i := range 120 {
		key := fmt.Sprint("k", i)
		c, err := client.MasterForKey(t.Context(), "lock:"+key)
		if err != nil {
			t.Fatal(err)
		}
		for m, addr := range addrs {
			if c.Options().Addr == addr {
				f.keys[m] = append(f.keys[m], key)
			}
		}
	}
	return f
}

// pass takes a key and gives it back.
func (f *failover) pass(key string) error {
	return f.eng.Do(context.Background(), key, func(context.Context) error { return nil })
}

// promoted waits until the first master's replica serves its slots.
func (f *failover) promoted() {
	f.t.Helper()
	client := f.replicas[0].Client()
	eventually(f.t, 30*time.Second, "the replica is a master", func() bool {
		return client.Set(context.Background(), "lock:"+f.keys[0][0], "probe", time.Millisecond).Err() == nil
	})
}

// TestClusterFailover: while a master is out the keys of the others are served as
// before, leases on them are renewed, and who asks for one of its own is told at once
// that it is out. Its keys are served again as soon as a replica has its slots.
func TestClusterFailover(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for name, fail := range map[string]func(*redistest.Server){
		"killed": (*redistest.Server).Kill,
		"silent": (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFailover(t)
			// Shorter than the outage, and due together.
			var leases []*core.Lease
			for m := range f.keys {
				l, err := f.eng.Acquire(t.Context(), f.keys[m][len(f.keys[m])-1], core.WithTTL(1500*time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				leases = append(leases, l)
			}
			var served [3]atomic.Int64
			var refused atomic.Int64
			stop := make(chan struct{})
			var all sync.WaitGroup
			for i := range 4 {
				for m := range f.keys {
					all.Go(func() {
						for {
							select {
							case <-stop:
								return
							case <-time.After(time.Millisecond): // a machine has other things to do
							}
							switch err := f.pass(f.keys[m][i]); {
							case err == nil:
								served[m].Add(1)
							case errors.Is(err, core.ErrCircuitOpen):
								refused.Add(1)
								if m != 0 {
									t.Errorf("key of a healthy master: %v", err)
								}
							case m != 0:
								t.Errorf("key of a healthy master: %v", err)
							}
						}
					})
				}
			}
			defer all.Wait()
			defer sync.OnceFunc(func() { close(stop) })()

			const before = 2 * time.Second
			time.Sleep(before)
			was := served[1].Load() + served[2].Load()
			fail(f.masters[0])
			began := time.Now()
			f.promoted()
			back := time.Now()
			during := served[1].Load() + served[2].Load() - was
			rate := float64(during) / float64(back.Sub(began)) / (float64(was) / float64(before))
			t.Logf("the slots were back after %v; the healthy masters' keys ran at %.0f %% of the rate before", back.Sub(began), 100*rate)
			if rate < 0.5 { // 0.8 to 1.4 where it was measured; the machine may have other work just then
				t.Errorf("keys of the healthy masters ran at %.0f %% of the rate before", 100*rate)
			}
			if refused.Load() == 0 {
				t.Error("nobody was told at once that the master is out")
			}
			for _, l := range leases[1:] {
				if err := l.Err(); err != nil {
					t.Errorf("%s is on a healthy master: %v", l.Key(), err)
				}
			}

			// A key that nobody has asked for: no other request is in its way.
			eventually(t, 10*time.Second, "a key of the master that failed is served", func() bool {
				return f.pass(f.keys[0][10]) == nil
			})
			t.Logf("and its keys were served %v later", time.Since(back))
			if late := time.Since(back); late > 4*time.Second {
				t.Errorf("its keys were served %v after the slots were back", late)
			}
			for _, l := range leases {
				_ = l.Release(t.Context())
			}
		})
	}
}
