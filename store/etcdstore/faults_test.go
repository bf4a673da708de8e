package etcdstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestLeaderLost: the processes go on taking turns when the leader is killed, or is paused until
// there is another one and then goes on. A process that held a lock before still holds it.
func TestLeaderLost(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for name, lose := range map[string]func(*etcdtest.Server){
		"killed": func(leader *etcdtest.Server) { leader.Kill() },
		"paused": func(leader *etcdtest.Server) {
			leader.Pause()
			time.AfterFunc(time.Second, leader.Resume)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := etcdtest.Cluster(t, 3)
			leader := leaderOf(t, members)
			var engines []*core.Engine
			for range 3 {
				eng, err := core.New(open(t, clienttest.New(t, addrs(members)...)), core.WithTTL(15*time.Second), core.WithMaxWait(soon))
				if err != nil {
					t.Fatal(err)
				}
				defer eng.Close(context.Background())
				engines = append(engines, eng)
			}
			held, err := engines[0].Acquire(t.Context(), "held")
			if err != nil {
				t.Fatal(err)
			}
			var inside, turns atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer func() { stop(); all.Wait() }()
			for _, eng := range engines {
				all.Go(func() {
					for ctx.Err() == nil {
						_ = eng.Do(ctx, "turns", func(ctx context.Context) error {
							if n := inside.Add(1); n > 1 && ctx.Err() == nil {
								t.Errorf("%d are inside", n)
							}
							time.Sleep(time.Millisecond)
							inside.Add(-1)
							turns.Add(1)
							return nil
						})
					}
				})
			}
			more := func(when string) {
				t.Helper()
				for want, end := turns.Load()+20, time.Now().Add(4*soon); turns.Load() < want; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("no turns %s", when)
					}
				}
			}
			more("at first")
			lose(leader)
			more("without the leader")
			stop()
			all.Wait()
			if err := held.Release(context.Background()); err != nil {
				t.Errorf("the lease that was held all the time: %v", err)
			}
			if leader.PID() != 0 {
				time.Sleep(time.Second) // until it has been resumed
			}
		})
	}
}

func addrs(members []*etcdtest.Server) (all []string) {
	for _, m := range members {
		all = append(all, m.Addr())
	}
	return all
}

func leaderOf(t testing.TB, members []*etcdtest.Server) *etcdtest.Server {
	t.Helper()
	for _, m := range members {
		r, err := clienttest.New(t, m.Addr()).Status(t.Context(), m.Addr())
		if err == nil && r.Leader == r.Header.MemberId {
			return m
		}
	}
	t.Fatal("there is no leader")
	return nil
}

// TestCompaction: what a waiter has missed was compacted. Its lease is long, so it would ask by itself
// only much later than the test allows.
func TestCompaction(t *testing.T) {
	t.Parallel()
	server := etcdtest.Shared(t)
	c := shared(t)
	network := servertest.NewProxy(t, server.Addr())
	a, b := open(t, c), open(t, clienttest.New(t, network.Addr()), etcdstore.WithWaiterLease(2*time.Minute))
	h := hold(t, a, request("holder", "k", time.Minute))
	w := wait(t, b, request("waiter", "k", 4*time.Minute))
	watched(t, c)
	network.Blackhole()
	release(t, a, h)
	r, err := c.Put(t.Context(), "other", "")
	if err == nil {
		_, err = c.Compact(t.Context(), r.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.waits()
	network.Heal()
	w.granted()
}

// watched waits a moment in which watches begin. etcd tells nobody which there are.
func watched(t testing.TB, c *clientv3.Client) {
	t.Helper()
	for range 50 {
		if _, err := c.Get(t.Context(), "anything"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestDeletedByHand: the holder learns of it, and the next one has the lock at once.
func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	c := shared(t)
	a, b := open(t, c), open(t, c, etcdstore.WithWaiterLease(2*time.Minute))
	h := hold(t, a, request("holder", "k", 4*time.Minute))
	w := wait(t, b, request("waiter", "k", 4*time.Minute))
	if _, err := c.Delete(t.Context(), memberKey(t, "k", "holder")); err != nil {
		t.Fatal(err)
	}
	next := w.granted()
	isLost(t, a.Renew(t.Context(), []driver.Grant{h})[0])
	isLost(t, a.Release(t.Context(), h))
	if next.Token <= h.Token {
		t.Errorf("token %d after %d", next.Token, h.Token)
	}
	release(t, b, next)
}

// TestNoSpace: with the alarm, leases can be renewed and released. When there is room again, the
// waiters go on.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, "--quota-backend-bytes", "2000000")
	c := clienttest.New(t, server.Addr())
	a, b := open(t, c), open(t, c)
	h := hold(t, a, request("holder", "k", 30*time.Second))
	w := wait(t, b, request("waiter", "k", 5*time.Second))
	grow(t, c)
	_, err := a.Acquire(t.Context(), request("other", "other", 30*time.Second))
	if down := (*driver.UnavailableError)(nil); !errors.As(err, &down) || !down.Refused {
		t.Errorf("a request for another key: %v", err)
	}
	if err := a.Renew(t.Context(), []driver.Grant{h})[0]; err != nil {
		t.Errorf("Renew: %v", err)
	}
	release(t, a, h)
	isLost(t, a.Release(t.Context(), h))

	// There is room again: the database is smaller, and the alarm is off.
	if _, err := c.Delete(t.Context(), "filler/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	select {
	case g := <-w.grant:
		release(t, b, g)
	case err := <-w.err: // the engine asks again
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("the waiter got %v", err)
		}
	case <-time.After(soon):
		t.Error("the waiter has no answer")
	}
}
