package natstest

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
	"github.com/keyturn/keyturn/store/storeurl"
)

// Options are refused before any I/O.
func TestOptions(t *testing.T) {
	t.Parallel()
	nc := connect(t, "127.0.0.1:1")
	for name, opt := range map[string]natsstore.Option{
		"nil": nil, "bucket": natsstore.WithBucket("a.b"), "no bucket": natsstore.WithBucket(""), "replicas": natsstore.WithReplicas(6),
		"waiter lease": natsstore.WithWaiterLease(time.Millisecond), "logger": natsstore.WithLogger(nil),
	} {
		if _, err := natsstore.New(nc, opt); !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := natsstore.New(nil); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("no connection: %v", err)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	srv := start(t, server.Options{Username: "me", Password: "secret"})
	s, err := storeurl.Open(t.Context(), "nats://me:secret@"+srv.Addr().String()+"/locks?replicas=1&waiter_lease=2s")
	must(t, err)
	storetest.Use(t, s, "k")
	must(t, s.Close())
	wrong, err := storeurl.Open(t.Context(), "nats://me:wrong@"+srv.Addr().String())
	must(t, err)
	defer wrong.Close()
	_, err = wrong.Acquire(t.Context(), request("k", time.Minute))
	storetest.IsRefused(t, err, "Authorization Violation")
	for url, want := range map[string]error{
		"nats:":                                   storeurl.ErrInvalidURL,
		"nats://a?nosuch=1":                       storeurl.ErrInvalidURL,
		"nats://127.0.0.1:1/a.b":                  driver.ErrInvalidOption,
		"natss://127.0.0.1:1/a?waiter_lease=1ns":  driver.ErrInvalidOption,
		"nats://127.0.0.1:1/a?replicas=9":         driver.ErrInvalidOption,
		"nats://127.0.0.1:1?credentials=/no/such": nil, // refused by the client, whatever its error is
	} {
		if _, err := storeurl.Open(t.Context(), url); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The server is away when the store is made, and the store works when it is there.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	storetest.AwayAtStart(t, start(t, server.Options{}).Addr().String(), func(addr string) (driver.Store, error) {
		return natsstore.New(connect(t, addr))
	})
}
