//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// engineOn makes an engine over client that the test closes.
func engineOn(t testing.TB, client redis.UniversalClient, ttl time.Duration, opts ...redisstore.Option) *core.Engine {
	t.Helper()
	store, err := redisstore.New(client, append([]redisstore.Option{silent}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := core.New(store, core.WithTTL(ttl), core.WithReleaseTimeout(time.Second), core.WithMaxWait(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = eng.Close(ctx) // what is held yet is revoked
	})
	return eng
}

// TestPartition: a master behind Sentinel is cut off together with a client that holds
// a lock. A replica takes over, and somebody else gets the lock there.
func TestPartition(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	const ttl = 3 * time.Second
	const downAfter = time.Second
	lag := []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"}
	for name, c := range map[string]struct {
		servers []string
		store   []redisstore.Option
		overlap time.Duration // of both holders, at most; below 0: without end
	}{
		// What holds without any of the settings shows that the others do something.
		"no setting":   {nil, nil, -1},
		"WithReplicas": {nil, []redisstore.Option{redisstore.WithReplicas(1, 200*time.Millisecond)}, 0},
		// Some 2 s where nothing else runs: the server's own count of the lag.
		"min-replicas": {lag, nil, 4 * time.Second},
		"both":         {lag, []redisstore.Option{redisstore.WithReplicas(1, 200*time.Millisecond)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t, 2, downAfter, c.servers...)
			inside, outside := engineOn(t, s.Nodes[0].Client(), ttl, c.store...), engineOn(t, s.Client(), ttl)
			var old *core.Lease
			// On a busy machine the replica may need longer for its answer than the store waits.
			eventually(t, 10*time.Second, "a replica confirms the first lease", func() (ok bool) {
				var err error
				old, err = inside.Acquire(t.Context(), "k")
				if err != nil && !errors.Is(err, redisstore.ErrNoReplicas) && !errors.Is(err, core.ErrHeld) {
					t.Fatal(err)
				}
				return err == nil
			})
			s.Nodes[0].Client().Wait(t.Context(), 1, 5*time.Second) // it is not about the last write

			s.Ways[0].Blackhole()
			cut := time.Now()
			got := make(chan time.Time, 1)
			go func() {
				for time.Since(cut) < 25*time.Second { // the first tries may find the old master silent
					l, err := outside.Acquire(context.Background(), "k")
					if err != nil {
						time.Sleep(20 * time.Millisecond)
						continue
					}
					got <- time.Now()
					if l.Token() <= old.Token() {
						t.Errorf("token %d follows %d", l.Token(), old.Token())
					}
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
			if overlap := lost.Sub(taken); overlap > c.overlap {
				t.Errorf("two held it for %v", overlap)
			}
			if held := lost.Sub(cut); c.overlap == 0 && held > ttl {
				t.Errorf("the old holder held it for %v", held)
			}
			_ = old.Release(t.Context())
		})
	}
}

// arrives is the moment that must come.
func arrives(t *testing.T, at <-chan time.Time) time.Time {
	t.Helper()
	select {
	case moment := <-at:
		return moment
	case <-time.After(30 * time.Second):
		t.Fatal("not within 30 s")
		return time.Time{}
	}
}
