package redisstore_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
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
	const key = "msg:0123456789abcdef0123456789abcd"
	for _, host := range []string{"openim-msgtransfer-6d5f8c7b9d-abcde", strings.Repeat("h", 64)} {
		for fingerprint, most := range map[string]int64{"": 160, "0123456789abcdef": 220} {
			owner := driver.Owner{Host: host, PID: 1_000_000, Instance: 12, Start: time.Now(), ID: "53a1fac7df860f5486080e8cbc92c3ab"}.String()
			g, _, err := begin(t, s, owner, key)
			must(t, err)
			must(t, s.Complete(ctx, g, driver.Record{Fingerprint: []byte(fingerprint)}, time.Hour))
			size, err := client.MemoryUsage(ctx, "{lock:"+key+"}:r").Result()
			check(t, err == nil && size <= most, "host %s, fingerprint %s: %d bytes, want %d at most (%v)", host, fingerprint, size, most, err)
			wantIs(t, "a repeat", s.Complete(ctx, g, driver.Record{}, time.Hour), nil)
			check(t, inspect(t, s, key).Record != nil, "there is no record")
			must(t, client.FlushAll(ctx).Err())
		}
	}
}

// If a version can't be kept, the caller gets an error, never success.
func TestVersionIsNotKept(t *testing.T) {
	server, s := onServer(t)
	must(t, checktest.ErrorOf(s.AdvanceVersion(within(t, time.Second), "k", math.MaxUint64, time.Hour)))
	cli(t, server, "18446744073709551615", "GET", "{lock:k}:v") // as operations.md says
	for name, tt := range map[string]struct {
		prepare func()
		store   *redisstore.Store
		want    error
	}{
		"something else": {func() { cli(t, server, "1", "LPUSH", "{lock:k}:v", "x") }, s, redisstore.ErrWrongType},
		"no number":      {func() { cli(t, server, "OK", "SET", "{lock:k}:v", "abcdefghijklmnopqrstuvwxyz") }, s, redisstore.ErrCorrupt},
		"no replicas":    {func() {}, open(t, server.Client(), redisstore.WithReplicas(1, 10*time.Millisecond)), redisstore.ErrNoReplicas},
	} {
		must(t, server.Client().FlushAll(bg).Err())
		tt.prepare()
		_, err := tt.store.AdvanceVersion(within(t, 5*time.Second), "k", 5, time.Hour)
		check(t, errors.Is(err, tt.want), "%s: %v, want %v", name, err, tt.want)
	}
	for _, retention := range []time.Duration{0, -time.Second, time.Microsecond} {
		_, err := s.AdvanceVersion(within(t, time.Second), "k", 5, retention)
		check(t, errors.Is(err, driver.ErrInvalidOption), "kept for %v: %v", retention, err)
	}
	wantIs(t, "a key with a brace", checktest.ErrorOf(s.AdvanceVersion(within(t, time.Second), "a{b", 5, time.Hour)), driver.ErrInvalidKey)
	set(t, server, "maxmemory", "1mb") // the server alone takes more
	outage(t, "AdvanceVersion", checktest.ErrorOf(s.AdvanceVersion(within(t, 5*time.Second), "other", 5, time.Hour)), redisstore.ErrOutOfMemory)
	wantIs(t, "a question needs no memory", checktest.ErrorOf(s.AdvanceVersion(within(t, 5*time.Second), "other", 0, time.Hour)), nil)
}

// TestNothingIsLeft after a thousand distinct keys, in every mode, released, forced or left to run out: but the one counter
// of a server.
func TestNothingIsLeft(t *testing.T) {
	server, s := onServer(t, redisstore.KeepReasons(300*time.Millisecond)) // for an hour otherwise
	modes := []func(string) driver.Claim{driver.Exclusive, driver.Shared, func(key string) driver.Claim { return driver.Permit(key, 2) }}
	for i := range 1_000 {
		key := fmt.Sprint("k", i)
		claims := []driver.Claim{modes[i%3](key)}
		if i%10 == 0 {
			claims = append(claims, modes[i/10%3](key+"+"))
		}
		ttl := time.Minute
		if i%4 == 3 {
			ttl = 20 * time.Millisecond
		}
		g, err := s.Acquire(bg, driver.Request{Owner: fmt.Sprint("o", i), Claims: claims, TTL: ttl, Rule: "rule", Trace: "trace"})
		must(t, err)
		switch {
		case i%4 == 3: // runs out
		case i%100 == 1:
			must(t, checktest.ErrorOf(s.ForceRelease(bg, key, "why")))
		default:
			release(t, s, g)
		}
	}
	admin := server.Client()
	eventually(t, 3*time.Second, "only the counter is left", func() bool {
		return slices.Equal(admin.Keys(bg, "*").Val(), []string{"{lock:}:token"})
	})
}
