package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
)

// soon is when everything must have happened that needs no lease to run out.
const soon = 10 * time.Second

func request(owner, key string, ttl time.Duration) driver.Request {
	return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: ttl}
}

// hold takes what is free.
func hold(t testing.TB, s driver.Store, req driver.Request) driver.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	g, err := s.Acquire(ctx, req)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return g
}

func release(t testing.TB, s driver.Store, g driver.Grant) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := s.Release(ctx, g); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// waiter is a request that waits.
type waiter struct {
	t      testing.TB
	grant  chan driver.Grant
	err    chan error
	cancel context.CancelFunc
}

// wait makes a request that waits, and returns when it is in the queue.
func wait(t testing.TB, s driver.Store, req driver.Request) *waiter {
	t.Helper()
	w := &waiter{t: t, grant: make(chan driver.Grant, 1), err: make(chan error, 1)}
	queued := make(chan struct{}, 100)
	req.Wait, req.OnHeld = true, func(driver.HeldError) { queued <- struct{}{} }
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		if g, err := s.Acquire(ctx, req); err != nil {
			w.err <- err
		} else {
			w.grant <- g
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-queued:
	case err := <-w.err:
		t.Fatalf("a request that should wait: %v", err)
	case <-time.After(soon):
		t.Fatal("a request does not wait")
	}
	return w
}

// granted returns the grant, which must come soon.
func (w *waiter) granted() driver.Grant {
	w.t.Helper()
	select {
	case g := <-w.grant:
		return g
	case err := <-w.err:
		w.t.Fatalf("a waiter got an error: %v", err)
	case <-time.After(3 * soon):
		w.t.Fatal("a waiter was not served")
	}
	return driver.Grant{}
}

// waits checks that there is no answer.
func (w *waiter) waits() {
	w.t.Helper()
	select {
	case g := <-w.grant:
		w.t.Fatalf("a waiter was granted out of turn: %+v", g)
	case err := <-w.err:
		w.t.Fatalf("a waiter got an error: %v", err)
	default:
	}
}

func isLost(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("want a loss, got %v", err)
	}
}

// memberKey is where an owner stands in etcd.
func memberKey(t testing.TB, key, owner string) string {
	return prefix(t) + "{" + key + "}/member/" + owner
}

// revoke ends the lease of etcd that keeps an owner.
func revoke(t testing.TB, c *clientv3.Client, key, owner string) {
	t.Helper()
	r, err := c.Get(t.Context(), memberKey(t, key, owner))
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("the key of %s: %v, %v", owner, r, err)
	}
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

// claims makes n claims in key order.
func claims(n int, claim func(string) driver.Claim) []driver.Claim {
	var all []driver.Claim
	for i := range n {
		all = append(all, claim(fmt.Sprintf("set:%04d", i)))
	}
	return all
}

// grow puts values until etcd refuses.
func grow(t testing.TB, c *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 100_000)
	for i := range 1000 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("filler/%d", i), value); err != nil {
			return
		}
	}
	t.Fatal("etcd has room for 100 MB")
}
