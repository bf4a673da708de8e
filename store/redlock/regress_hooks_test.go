package redlock_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redlock"
)

// TestHooksSeeEveryRequest: see the test of the same name in redisstore.
func TestHooksSeeEveryRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	var seen atomic.Int64
	clients := make([]*redis.Client, len(f.servers))
	for i, server := range f.servers {
		clients[i] = server.Client()
		clients[i].AddHook(redistest.OnCommand(func(cmd redis.Cmder) {
			if name := cmd.Name(); name == "eval" || name == "evalsha" {
				seen.Add(1)
			}
		}))
	}
	s, err := redlock.New(clients, patient)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Init(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		g := lock(t, s, fmt.Sprint("owner", i), fmt.Sprint("k", i), time.Minute)
		if err := s.Release(within(t, 5*time.Second), g); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil { // so that nothing is under way when the requests are counted
		t.Fatal(err)
	}
	var ran int64
	for _, server := range f.servers {
		commands := server.Commands(t)
		ran += commands["evalsha"] + commands["eval"]
	}
	if seen.Load() != ran || ran == 0 {
		t.Errorf("the hooks saw %d of %d scripts", seen.Load(), ran)
	}
}
