package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// wants is a request for key that wants n tokens reserved for hand-offs.
func wants(owner, key string, n uint64) driver.Request {
	return driver.Request{Owner: owner, Claims: []driver.Claim{driver.Exclusive(key)}, TTL: time.Minute, HandOffs: n}
}

// TestTokensOfABatchAreApart: many grants of one moment, each with its own reserved tokens.
func TestTokensOfABatchAreApart(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	const callers, rounds = 64, 20
	owner := map[uint64]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for round := range rounds {
				me := fmt.Sprint("o", i, ".", round)
				g, err := s.Acquire(ctx, wants(me, me, uint64(i%8)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for token := g.Token; token <= g.Token+g.HandOffs; token++ {
					if other, taken := owner[token]; taken {
						t.Errorf("token %d is %s's and %s's", token, other, me)
					}
					owner[token] = me
				}
				mu.Unlock()
				release(t, s, g)
			}
		})
	}
	all.Wait()
}

// TestNothingIsReservedBehindTheClock that was set back: the tokens count on from the last,
// and run no further ahead of it than they are.
func TestNothingIsReservedBehindTheClock(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	last := uint64(time.Now().Add(time.Hour).UnixMicro())
	server.Client().Set(ctx, "{lock:}:token", last, 0)
	for i := range uint64(5) {
		g, err := s.Acquire(ctx, wants("o", "k", 1000))
		if err != nil {
			t.Fatal(err)
		}
		if g.Token != last+1+i || g.HandOffs != 0 {
			t.Errorf("token %d with %d reserved, after %d", g.Token, g.HandOffs, last+i)
		}
		release(t, s, g)
	}
}
