package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// leasesEnd is when the last lease on key ends by the server's word, whatever its mode.
func leasesEnd(t *testing.T, client *redis.Client, key string) time.Duration {
	t.Helper()
	defer client.Close()
	s := open(t, client)
	info, err := s.Inspect(within(t, 5*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	var last time.Duration
	for _, h := range info.Holders {
		last = max(last, h.Left)
	}
	left, err := client.PTTL(context.Background(), "lock:"+key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return max(last, left)
}

// An Extend before the lease is carried changes what may be borrowed, also while the
// server is out of memory: the TTL on record is written then.
func TestExtendedThenCarried(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	for _, claim := range []driver.Claim{driver.Exclusive("x"), driver.Permit("p", 1)} {
		holder, callee := engine(t, server), engine(t, server)
		lease, err := holder.AcquireAll(within(t, 5*time.Second), []driver.Claim{claim}, core.WithTTL(30*time.Second), core.WithRule("r"))
		if err != nil {
			t.Fatal(err)
		}
		if err := client.ConfigSet(context.Background(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		err = lease.Extend(within(t, 5*time.Second), time.Minute)
		if err := client.ConfigSet(context.Background(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatalf("Extend without memory: %v", err)
		}
		carried := carry.Leases(lease.Context())
		borrowed, err := callee.AcquireAll(carry.Accept(within(t, 5*time.Second), carried), []driver.Claim{claim}, core.WithFailFast())
		if err != nil || borrowed.TTL() != time.Minute {
			t.Fatalf("%v: %v, %v", claim, borrowed, err)
		}
		_ = borrowed.Release(context.Background())
		longer := strings.Replace(carried, ";60000;", ";60001;", 1)
		_, err = callee.AcquireAll(carry.Accept(within(t, 5*time.Second), longer), []driver.Claim{claim}, core.WithFailFast())
		if !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%v: with a longer TTL: %v", claim, err)
		}
		info, err := open(t, client, redisstore.WithWaiterLease(time.Second)).Inspect(within(t, 5*time.Second), claim.Key)
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Rule != "r" || info.Holders[0].Token != lease.Token() {
			t.Errorf("%v: what is on record after an Extend: %+v, %v", claim, info, err)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
