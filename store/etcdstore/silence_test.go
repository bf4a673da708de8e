package etcdstore_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestSilentAfterCut: the connection ends, and the next one is accepted and stays silent. The client waits
// for its first word for 20 s. A waiter must not: its call ends with its context.
func TestSilentAfterCut(t *testing.T) {
	servertest.LongParallel(t)
	shared(t) // which deletes what the test leaves behind
	network := servertest.NewProxy(t, etcdtest.Shared(t).Addr())
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{network.Addr()}, Logger: zap.NewNop()})
	must(t, err)
	defer c.Close()
	s := open(t, c, etcdstore.WithWaiterLease(3*time.Second))
	h := hold(t, s, request("k", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan struct{}, 100)
	req := request("k", time.Minute)
	req.Wait = true
	req.OnHeld = func(driver.HeldError) { held <- struct{}{} }
	ended := checktest.Async(func() error { return checktest.ErrorOf(s.Acquire(ctx, req)) })
	<-held
	<-held // it has given a sign of life: the stream is open
	network.Cut()
	network.Blackhole()
	time.Sleep(1500 * time.Millisecond) // until it is due to ask again
	cancel()
	began := time.Now()
	brief, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	wantIs(t, "Renew", s.Renew(brief, []driver.Grant{h})[0], driver.ErrUnavailable)
	select {
	case err := <-ended:
		t.Logf("the waiter's error after %v: %v", time.Since(began), err)
	case <-time.After(8 * time.Second):
		t.Error("the waiter is still waiting 8 s after its context has ended")
	}
	network.Heal()
}

// TestOthersCancel: waiters give up while their signs of life are under way. One stream carries those of
// all waiters of the process, and the others wait on.
func TestOthersCancel(t *testing.T) {
	t.Parallel()
	network := servertest.NewProxy(t, etcdtest.Shared(t).Addr())
	hold(t, open(t, shared(t)), request("k", time.Minute))
	b := open(t, clienttest.New(t, network.Addr()), etcdstore.WithWaiterLease(3*time.Second))
	stays := enqueue(t, b, request("k", time.Minute))
	var gone []func()
	for range 20 {
		gone = append(gone, enqueue(t, b, request("k", time.Minute)).Cancel)
	}
	network.Delay(200 * time.Millisecond)
	for _, cancel := range gone {
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
	stays.Waits()
}
