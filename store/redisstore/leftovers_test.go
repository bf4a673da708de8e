package redisstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestNothingIsLeft after a thousand distinct keys, in every mode, released, forced or left to run out: but the one
// counter of a server. In here because the reasons of forced releases stay for an hour otherwise.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	admin := server.Client()
	brief := func(c *config) error { c.forcedFor = 300 * time.Millisecond; return nil }
	s, err := New(server.Client(), brief, WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	modes := []func(string) driver.Claim{driver.Exclusive, driver.Shared, func(key string) driver.Claim { return driver.Permit(key, 2) }}
	notes := 0
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
		g, err := s.Acquire(ctx, driver.Request{Owner: fmt.Sprint("o", i), Claims: claims, TTL: ttl, Rule: "rule", Trace: "trace"})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i%4 == 3: // runs out
		case i%100 == 1:
			if _, err := s.ForceRelease(ctx, key, "why"); err != nil {
				t.Fatal(err)
			}
			notes++
		default:
			if err := s.Release(ctx, g); err != nil {
				t.Fatal(err)
			}
		}
	}
	if notes == 0 {
		t.Fatal("nothing was forced")
	}
	var left []string
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = admin.Keys(ctx, "*").Val(); len(left) == 1 {
			break
		}
	}
	if len(left) != 1 || left[0] != "{lock:}:token" {
		t.Errorf("%d keys are left, such as %s", len(left), strings.Join(left[:min(len(left), 3)], " "))
	}
}
