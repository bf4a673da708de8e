package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// Records are kept for a day, by the million. The name of the host was most of one.
func TestSizeOfARecord(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	s := open(t, client)
	ctx := within(t, 20*time.Second)
	for _, host := range []string{"vm", "openim-msgtransfer-6d5f8c7b9d-abcde", strings.Repeat("h", 64)} {
		for _, key := range []string{"msg:0123456789abcdef", "msg:0123456789abcdef0123456789abcd"} {
			for fingerprint, most := range map[string]int64{"": 160, "0123456789abcdef": 220} {
				owner := driver.Owner{Host: host, PID: 1_000_000, Instance: 12, Start: time.Now(), ID: "53a1fac7df860f5486080e8cbc92c3ab"}.String()
				g, _, err := begin(t, s, owner, key)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Complete(ctx, g, driver.Record{Fingerprint: []byte(fingerprint)}, time.Hour); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("host of %d bytes, key of %d, fingerprint of %d", len(host), len(key), len(fingerprint))
				size, err := client.MemoryUsage(ctx, "{lock:"+key+"}:r").Result()
				if err != nil || size > most {
					t.Errorf("%s: %d bytes, want %d at most (%v)", what, size, most, err)
				}
				if err := s.Complete(ctx, g, driver.Record{}, time.Hour); err != nil {
					t.Errorf("%s: a repeat: %v", what, err)
				}
				info, err := s.Inspect(ctx, key)
				if err != nil || info.Record == nil || len(host) < 28 && info.Record.Owner != owner {
					t.Errorf("%s: %+v, %v", what, info.Record, err)
				}
				if err := client.FlushAll(ctx).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// What operations.md says of the key of a version.
func TestVersionInRedis(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	if newest, err := s.AdvanceVersion(within(t, time.Second), "user:1", math.MaxUint64, time.Hour); err != nil || newest != math.MaxUint64 {
		t.Fatalf("%d, %v", newest, err)
	}
	cli(t, server, "18446744073709551615", "GET", "{lock:user:1}:v")
	if left := server.Client().PTTL(context.Background(), "{lock:user:1}:v").Val(); left <= 59*time.Minute || left > time.Hour {
		t.Errorf("it is kept for %v", left)
	}
	cli(t, server, "{lock:user:1}:v", "KEYS", "*")
	if had, err := s.Forget(within(t, time.Second), "user:1"); !had || err != nil {
		t.Errorf("Forget: %v, %v", had, err)
	}
	cli(t, server, "", "KEYS", "*")
}

// If a version can't be kept, the caller gets an error, never success.
func TestVersionIsNotKept(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	for name, tt := range map[string]struct {
		prepare func()
		store   *redisstore.Store
		want    error
	}{
		"something else": {func() { cli(t, server, "1", "LPUSH", "{lock:k}:v", "x") }, s, redisstore.ErrWrongType},
		"no number":      {func() { cli(t, server, "OK", "SET", "{lock:k}:v", "abcdefghijklmnopqrstuvwxyz") }, s, redisstore.ErrCorrupt},
		"no replicas":    {func() {}, open(t, server.Client(), redisstore.WithReplicas(1, 10*time.Millisecond)), redisstore.ErrNoReplicas},
	} {
		if err := server.Client().FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		tt.prepare()
		if _, err := tt.store.AdvanceVersion(within(t, 5*time.Second), "k", 5, time.Hour); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	for _, retention := range []time.Duration{0, -time.Second, time.Microsecond} {
		if _, err := s.AdvanceVersion(within(t, time.Second), "k", 5, retention); !errors.Is(err, driver.ErrInvalidOption) {
			t.Errorf("kept for %v: %v", retention, err)
		}
	}
	if _, err := s.AdvanceVersion(within(t, time.Second), "a{b", 5, time.Hour); !errors.Is(err, driver.ErrInvalidKey) {
		t.Errorf("a key with a brace: %v", err)
	}
	set(t, server, "maxmemory", "1mb") // the server alone takes more
	if _, err := s.AdvanceVersion(within(t, 5*time.Second), "other", 5, time.Hour); !errors.Is(err, redisstore.ErrOutOfMemory) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("out of memory: %v", err)
	}
	if _, err := s.AdvanceVersion(within(t, 5*time.Second), "other", 0, time.Hour); err != nil {
		t.Errorf("a question needs no memory: %v", err)
	}
}
