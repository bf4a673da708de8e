package redlock_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redlock"
)

// A node that is down, one that evicts, and ones that forget although they must not.
func TestExamine(t *testing.T) {
	t.Parallel()
	good := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	evicts := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	down := redistest.Start(t)
	var clients []*redis.Client
	for _, s := range []*redistest.Server{good, evicts, down} {
		clients = append(clients, s.Client(func(o *redis.Options) { o.MaxRetries = -1 }))
	}
	down.Kill()
	s, err := redlock.New(clients, redlock.WithPersistent())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var risks []string
	for _, f := range s.Describe().Examine(t.Context()) {
		if f.Risk != "" {
			risks = append(risks, f.About)
		}
	}
	want := []string{"maxmemory-policy of " + evicts.Addr(), "appendonly of " + evicts.Addr(), "node of " + down.Addr()}
	if strings.Join(risks, ", ") != strings.Join(want, ", ") {
		t.Errorf("%q, want %q", risks, want)
	}
}
