package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestLostAcquireReply is about SET NX, which go-redis repeats after a lost
// reply, to be told that the lock is held: by ourselves.
func TestLostAcquireReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, network := lossy(t, server)
	admin := server.Client()
	network.CutReplies()
	done := make(chan struct{})
	var g driver.Grant
	var err error
	go func() {
		defer close(done)
		g, err = s.Acquire(within(t, 5*time.Second), request("o", "k", time.Minute))
	}()
	var first string
	eventually(t, soon, "the lock is granted", func() bool {
		first = admin.Get(context.Background(), "lock:k").Val()
		return first != ""
	})
	network.Heal()
	<-done
	if err != nil {
		t.Fatalf("we have the lock and don't know it: %v", err)
	}
	if want := fmt.Sprint("o:", g.Token, ":"); !strings.HasPrefix(first, want) {
		t.Errorf("granted was %q, the lease is %q", first, want)
	}
	release(t, s, g)
}
