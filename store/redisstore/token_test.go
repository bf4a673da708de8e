package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestTokenOfAPassedLock: the message gives the token that the passing took; and the
// first renewal the full TTL.
func TestTokenOfAPassedLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	g := lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	release(t, s, g)
	next := w.granted(soon)
	if next.Token <= g.Token {
		t.Errorf("token %d follows %d", next.Token, g.Token)
	}
	ctx := context.Background()
	if v := server.Client().Get(ctx, "lock:k").Val(); !strings.HasPrefix(v, "w:"+strconv.FormatUint(next.Token, 10)+":") {
		t.Errorf("the lock says %q, the grant %d", v, next.Token)
	}
	if err := renew(t, s, next); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if ttl := server.Client().PTTL(ctx, "lock:k").Val(); ttl < 50*time.Second {
		t.Errorf("%v are left of a lease of 1m", ttl)
	}
}

// TestRestartWithData: what the server wrote down is in force again, leases and
// places in line.
func TestRestartWithData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, server.Client(), redisstore.WithWaiterLease(600*time.Millisecond))
	g := lock(t, s, "holder", "k", time.Minute)
	w := enqueue(t, s, "w", "k", time.Minute)
	server.Restart(t)
	if err := renew(t, s, g); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if n := waiting(t, server, "k"); n != 1 {
		t.Errorf("%d in line", n)
	}
	release(t, s, g)
	if next := w.granted(soon); next.Token <= g.Token {
		t.Errorf("token %d follows %d", next.Token, g.Token)
	}
}
