package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// TestTokenOfASetBesideReaders: a set over two slots of a Cluster held one key shared and waited for
// another. Meanwhile a reader got the first key. The set's token was that of its last key, from
// another counter, and could be the reader's: one microsecond on two masters. Random histories found
// it. Here the counters are set so that it happens each time.
func TestTokenOfASetBesideReaders(t *testing.T) {
	t.Parallel()
	client := sharedCluster(t)
	s := open(t, client)
	ctx := context.Background()
	holder := lock(t, s, "holder", "set:b", time.Minute)
	set := enqueueFor(t, s, "set", driver.Shared("set:a"), driver.Exclusive("set:b"))
	eventually(t, 5*time.Second, "the set has its first key", func() bool {
		info, err := s.Inspect(within(t, 5*time.Second), "set:a")
		return err == nil && len(info.Holders) == 1
	})
	ahead := time.Now().Add(10 * time.Second).UnixMicro()
	for _, counter := range []string{"{lock:set:a}:t", "{lock:set:b}:t"} {
		if err := client.Set(ctx, counter, ahead, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	reader := lease(t, s, "reader", driver.Shared("set:a"))
	release(t, s, holder)
	g := set.granted(5 * time.Second)
	if g.Token <= reader.Token {
		t.Errorf("the set has token %d, and the reader got %d before", g.Token, reader.Token)
	}
	if err := renew(t, s, g); err != nil {
		t.Errorf("the set's renewal: %v", err)
	}
	next := lease(t, s, "next", driver.Shared("set:a"))
	if next.Token <= g.Token {
		t.Errorf("token %d follows the set's %d", next.Token, g.Token)
	}
	for _, g := range []driver.Grant{g, reader, next} {
		release(t, s, g)
	}
}
