package redisstore_test

import (
	"context"
	"errors"
	"strconv"
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

// The text that carry.Leases makes names the lease's TTL, and a borrower renewed the
// lease with whatever the text said: 10 ms let a stranger in beside the holder, and
// a day blocked the key for a day.
func TestCarriedTextWithAnotherTTL(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	server := redistest.Start(t)
	for name, claims := range map[string][]driver.Claim{
		"exclusive": {driver.Exclusive("x")},
		"shared":    {driver.Shared("s")},
		"permit":    {driver.Permit("p", 1)},
		"set":       {driver.Exclusive("a"), driver.Shared("b"), driver.Permit("c", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, said := range []string{
				"20000", "10", "11", "19999", "20001", "60000", "86400000", // in ms, up to MaxTTL
				"0", "-1", "9", "86400001", "9223372036854775807", "9223372036854775808", "", "1e9", "20s",
			} {
				holder, callee, stranger := engine(t, server), engine(t, server), engine(t, server)
				lease, err := holder.AcquireAll(within(t, 5*time.Second), claims, core.WithTTL(ttl))
				if err != nil {
					t.Fatal(err)
				}
				text := strings.Split(carry.Leases(lease.Context()), ";")
				text[3] = said
				ctx := carry.Accept(within(t, 10*time.Second), strings.Join(text, ";"))
				got, err := callee.AcquireAll(ctx, claims, core.WithFailFast(), core.WithTTL(ttl))
				borrowed := err == nil && got.Owner() == lease.Owner()
				ms, garbage := strconv.Atoi(said)
				switch {
				case ms == 10 || ms == 11: // may be over before the answer is here
				case err != nil && !errors.Is(err, driver.ErrHeld):
					t.Errorf("%q: %v", said, err)
				case borrowed != (garbage == nil && ms >= 10 && ms <= 20000):
					t.Errorf("%q: borrowed: %v, %v", said, borrowed, err)
				}
				for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					for _, c := range claims {
						ends := leasesEnd(t, server.Client(), c.Key)
						if ends < ttl/4 || ends > ttl {
							t.Fatalf("%q: the lease on %q ends in %v", said, c.Key, ends)
						}
						_, err := stranger.TryAcquire(within(t, 5*time.Second), c.Key)
						if !errors.Is(err, driver.ErrHeld) {
							t.Fatalf("%q: a stranger on %q: %v", said, c.Key, err)
						}
					}
				}
				if got != nil {
					_ = got.Release(context.Background()) // one of 10 ms may be lost to its borrower
				}
				if err := lease.Release(context.Background()); err != nil {
					t.Fatalf("%q: the holder's release: %v", said, err)
				}
			}
		})
	}
}

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
