package etcdstore_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/etcdstore"
	"github.com/keyturn/keyturn/store/etcdstore/internal/clienttest"
)

// TestBadOptions: each is refused before any I/O, and all of them are named.
func TestBadOptions(t *testing.T) {
	nobody := clienttest.New(t, "127.0.0.1:1")
	for name, opts := range map[string][]etcdstore.Option{
		"nil":            {nil},
		"no prefix":      {etcdstore.WithPrefix("")},
		"a brace":        {etcdstore.WithPrefix("a{")},
		"half a second":  {etcdstore.WithWaiterLease(1500 * time.Millisecond)},
		"too short":      {etcdstore.WithWaiterLease(0)},
		"too long":       {etcdstore.WithWaiterLease(time.Hour)},
		"no logger":      {etcdstore.WithLogger(nil)},
		"one of several": {etcdstore.WithPrefix("a/"), etcdstore.WithLogger(nil)},
	} {
		_, err := etcdstore.New(t.Context(), nobody, opts...)
		if option := (*driver.OptionError)(nil); !errors.As(err, &option) || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := etcdstore.New(t.Context(), nil); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("no client: %v", err)
	}
}

// TestBadRequests: requests that etcd could not keep are refused before any I/O.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	network := servertest.NewProxy(t, etcdtest.Shared(t).Addr())
	s := open(t, clienttest.New(t, network.Addr()))
	network.Cut()
	claims := []driver.Claim{driver.Exclusive("k")}
	for name, tc := range map[string]struct {
		req  driver.Request
		want error
	}{
		"half a second": {driver.Request{Owner: "o", Claims: claims, TTL: 1500 * time.Millisecond}, driver.ErrInvalidOption},
		"no TTL":        {driver.Request{Owner: "o", Claims: claims}, driver.ErrInvalidOption},
		"no owner":      {driver.Request{Claims: claims, TTL: time.Second}, driver.ErrInvalidOwner},
		"a colon":       {driver.Request{Owner: "a:b", Claims: claims, TTL: time.Second}, driver.ErrInvalidOwner},
		"no claim":      {driver.Request{Owner: "o", TTL: time.Second}, driver.ErrInvalidClaim},
	} {
		if _, err := s.Acquire(t.Context(), tc.req); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClientStays: the store does not close the caller's client.
func TestClientStays(t *testing.T) {
	t.Parallel()
	c := shared(t)
	if err := open(t, c).Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Put(t.Context(), "k", "v", clientv3.WithLease(clientv3.NoLease)); err != nil {
		t.Errorf("the client after the store has closed: %v", err)
	}
}
