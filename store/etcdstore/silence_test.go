package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestSilentAfterCut: the connection ends, and the next one is accepted and stays silent. The client waits
// for its first word for 20 s. A waiter must not: its call ends with its context.
func TestSilentAfterCut(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	server := etcdtest.Shared(t)
	network := servertest.NewProxy(t, server.Addr())
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{network.Addr()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := open(t, c, etcdstore.WithWaiterLease(3*time.Second))
	h := hold(t, s, request("holder", "k", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := request("waiter", "k", time.Minute)
	req.Wait = true
	held := make(chan struct{}, 100)
	req.OnHeld = func(driver.HeldError) { held <- struct{}{} }
	ended := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, req)
		ended <- err
	}()
	<-held
	<-held // it has given a sign of life: the stream is open
	network.Cut()
	network.Blackhole()
	time.Sleep(1500 * time.Millisecond) // until it is due to ask again
	cancel()
	began := time.Now()
	brief, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := s.Renew(brief, []driver.Grant{h})[0]; !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Renew: %v", err)
	}
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
	server := etcdtest.Shared(t)
	a := open(t, clienttest.New(t, server.Addr()))
	hold(t, a, request("holder", "k", time.Minute))
	network := servertest.NewProxy(t, server.Addr())
	b := open(t, clienttest.New(t, network.Addr()), etcdstore.WithWaiterLease(3*time.Second))
	stays := wait(t, b, request("stays", "k", time.Minute))
	var gone []func()
	for i := range 20 {
		gone = append(gone, wait(t, b, request(fmt.Sprintf("goes%d", i), "k", time.Minute)).cancel)
	}
	network.Delay(200 * time.Millisecond)
	for _, cancel := range gone {
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
	stays.waits()
}
