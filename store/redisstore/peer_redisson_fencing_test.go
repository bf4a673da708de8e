package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// TestTokensRise is about Redisson's fenced lock, whose counter can be reset or
// expire: whatever the server forgets, a later grant has the greater token.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	s := open(t, server.Client())
	admin := server.Client()
	var last uint64
	grant := func(after string) {
		t.Helper()
		g := lock(t, s, "o", "k", time.Minute)
		if g.Token <= last {
			t.Errorf("after %s: token %d follows %d", after, g.Token, last)
		}
		last = g.Token
		release(t, s, g)
	}
	grant("nothing")
	grant("a release")
	if err := admin.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	grant("FLUSHALL")
	lock(t, s, "dead", "k", 20*time.Millisecond)
	eventually(t, soon, "the lease is over", func() bool { return admin.Exists(ctx, "lock:k").Val() == 0 })
	grant("an expiry")
	server.Restart(t)
	grant("a restart without data")
	if err := admin.Del(ctx, "{lock:}:token").Err(); err != nil {
		t.Fatal(err)
	}
	grant("the loss of the counter")
	admin.Set(ctx, "{lock:}:token", "junk", 0)
	grant("damage to the counter")
	behind := admin.Get(ctx, "{lock:}:token").Val() // as on a replica that lagged, or after a restart of one that writes once a second
	grant("a release")
	admin.Set(ctx, "{lock:}:token", behind, 0)
	grant("the loss of the last writes")

	// A clock that was set back by a day: the counter is ahead of it.
	last = uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	admin.Set(ctx, "{lock:}:token", last, 0)
	for range 3 {
		want := last + 1
		grant("a clock that was set back")
		if last != want {
			t.Errorf("the token is %d, want %d", last, want)
		}
	}
	if stored := admin.Get(ctx, "{lock:}:token").Val(); stored != strconv.FormatUint(last, 10) {
		t.Errorf("the counter says %q, want all the digits of %d", stored, last)
	}
}
