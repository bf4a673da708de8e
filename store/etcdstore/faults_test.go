package etcdstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestLeaderLost: the processes go on taking turns when the leader is killed, or is paused until
// there is another one and then goes on. A process that held a lock before still holds it.
func TestLeaderLost(t *testing.T) {
	servertest.LongParallel(t)
	checktest.Each(t, map[string]func(*etcdtest.Server){
		"killed": func(leader *etcdtest.Server) { leader.Kill() },
		"paused": func(leader *etcdtest.Server) {
			leader.Pause()
			time.AfterFunc(time.Second, leader.Resume)
		},
	}, func(t *testing.T, lose func(*etcdtest.Server)) {
		members := etcdtest.Cluster(t, 3)
		leader := leaderOf(t, members)
		var engines []*core.Engine
		for range 3 {
			engines = append(engines, engine(t, on(t, members...), 15*time.Second, 10*time.Second))
		}
		held, err := engines[0].Acquire(t.Context(), "held")
		must(t, err)
		var inside, turns atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer func() { stop(); all.Wait() }()
		for _, eng := range engines {
			all.Go(func() {
				for ctx.Err() == nil {
					_ = eng.Do(ctx, "turns", func(ctx context.Context) error {
						n := inside.Add(1)
						check(t, n <= 1 || ctx.Err() != nil, "%d are inside", n)
						time.Sleep(time.Millisecond)
						inside.Add(-1)
						turns.Add(1)
						return nil
					})
				}
			})
		}
		more := func(what string) {
			t.Helper()
			want := turns.Load() + 20
			checktest.Eventually(t, what, func() bool { return turns.Load() >= want })
		}
		more("there are turns at first")
		lose(leader)
		more("there are turns without the leader")
		stop()
		all.Wait()
		wantIs(t, "the lease that was held all the time", held.Release(context.Background()), nil)
		if leader.PID() != 0 {
			time.Sleep(time.Second) // until it has been resumed
		}
	})
}

// TestCompaction: what a waiter has missed was compacted. Its lease is long, so it would ask by itself
// only much later than the test allows.
func TestCompaction(t *testing.T) {
	t.Parallel()
	c, network := shared(t), servertest.NewProxy(t, etcdtest.Shared(t).Addr())
	a, b := open(t, c), open(t, clienttest.New(t, network.Addr()), etcdstore.WithWaiterLease(2*time.Minute))
	h := hold(t, a, request("k", time.Minute))
	w := enqueue(t, b, request("k", 4*time.Minute))
	watched(t, c)
	network.Blackhole()
	release(t, a, h)
	r, err := c.Put(t.Context(), "other", "")
	if err == nil {
		_, err = c.Compact(t.Context(), r.Header.Revision)
	}
	must(t, err)
	w.Waits()
	network.Heal()
	w.Granted()
}

// watched waits a moment in which watches begin. etcd tells nobody which there are.
func watched(t testing.TB, c *clientv3.Client) {
	t.Helper()
	for range 50 {
		must(t, checktest.ErrorOf(c.Get(t.Context(), "anything")))
		time.Sleep(2 * time.Millisecond)
	}
}

// TestNoSpace: with the alarm, leases can be renewed and released. When there is room again, the waiters go on.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, "--quota-backend-bytes", "2000000")
	c := clienttest.New(t, server.Addr())
	a, b := open(t, c), open(t, c)
	h := hold(t, a, request("k", 30*time.Second))
	w := enqueue(t, b, request("k", 5*time.Second))
	grow(t, c)
	_, err := a.Acquire(t.Context(), request("other", 30*time.Second))
	storetest.IsRefused(t, err)
	must(t, a.Renew(t.Context(), []driver.Grant{h})[0])
	release(t, a, h)
	storetest.IsLost(t, a.Release(t.Context(), h))

	// There is room again: the database is smaller, and the alarm is off.
	must(t, checktest.ErrorOf(c.Delete(t.Context(), "filler/", clientv3.WithPrefix())))
	must(t, checktest.ErrorOf(c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})))
	if g, err := w.Answer(); err == nil {
		release(t, b, g)
	} else if !errors.Is(err, driver.ErrUnavailable) { // the engine asks again
		t.Errorf("the waiter got %v", err)
	}
}

// engine makes one that the test closes. A test that has failed leaves leases.
func engine(t *testing.T, s driver.Store, ttl, maxWait time.Duration) *core.Engine {
	t.Helper()
	eng, err := core.New(s, core.WithTTL(ttl), core.WithMaxWait(maxWait))
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = eng.Close(ctx)
	})
	return eng
}

// TestLeaderCutOff: the leader is cut off from the other members, and clients reach all of them. Those of
// the others go on. A process that only knows the old leader loses its lease before another one gets the
// key, and is not told that nobody has it. When the network is back, it takes part again.
func TestLeaderCutOff(t *testing.T) {
	servertest.LongParallel(t)
	members, network := etcdtest.Splittable(t, 3)
	leader := leaderOf(t, members)
	others := slices.DeleteFunc(slices.Clone(members), func(m *etcdtest.Server) bool { return m == leader })
	behind := on(t, leader)
	old, young := engine(t, behind, 3*time.Second, time.Minute), engine(t, on(t, others...), 3*time.Second, time.Minute)
	held, err := old.Acquire(t.Context(), "held")
	must(t, err)
	network.CutOff(t, leader)
	next, err := young.Acquire(t.Context(), "held")
	require(t, err == nil, "the others do not go on: %v", err)
	check(t, held.Context().Err() != nil, "two hold the key: tokens %d and %d", held.Token(), next.Token())
	check(t, next.Token() > held.Token(), "token %d after %d", next.Token(), held.Token())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = behind.Acquire(ctx, request("free", time.Minute))
	wantIs(t, "a member without the others answers", err, driver.ErrUnavailable)
	network.Join()
	checktest.Eventually(t, "the member takes part again", func() bool {
		_, err := old.TryAcquire(t.Context(), "held")
		require(t, err != nil, "two hold the key when the network is back")
		return errors.Is(err, core.ErrHeld)
	})
	must(t, next.Release(t.Context()))
	last, err := old.Acquire(t.Context(), "held")
	require(t, err == nil, "after the partition: %v", err)
	check(t, last.Token() > next.Token(), "token %d after %d", last.Token(), next.Token())
	must(t, last.Release(t.Context()))
}
