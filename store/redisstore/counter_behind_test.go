package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestTokensRiseAfterALossOfTheLastWrites: a replica that lagged has become the master, or a server that writes
// its file once a second has started anew. The counter is there, and behind.
func TestTokensRiseAfterALossOfTheLastWrites(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, admin := open(t, server.Client()), server.Client()
	var last uint64
	for i := range 4 {
		var kept string
		for n := range 3 {
			g := lock(t, s, "o", "k", time.Minute)
			if g.Token <= last {
				t.Errorf("loss %d: token %d follows %d", i, g.Token, last)
			}
			last = g.Token
			release(t, s, g)
			if n == 0 {
				kept = admin.Get(context.Background(), "{lock:}:token").Val()
			}
		}
		admin.Set(context.Background(), "{lock:}:token", kept, 0)
	}
}
