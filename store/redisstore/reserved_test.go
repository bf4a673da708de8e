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

// TestTokensFollowWhatIsReserved on whatever way the next grant takes, with a counter that is
// ahead of the clock: there the clock does not hide a token that is given twice. The lead is
// less than what a grant may reserve, as the tests' machine takes its time.
func TestTokensFollowWhatIsReserved(t *testing.T) {
	t.Parallel()
	server := database(t)
	s := open(t, server.Client())
	ctx := within(t, 20*time.Second)
	reserved := uint64(0)
	for round := range 10 {
		for name, next := range map[string]driver.Request{
			"plain":  wants("next", "k", 1000),
			"shared": {Owner: "next", Claims: []driver.Claim{driver.Shared("k")}, TTL: time.Minute},
			"set":    {Owner: "next", Claims: []driver.Claim{driver.Exclusive("j"), driver.Exclusive("k")}, TTL: time.Minute},
		} {
			next.Owner = fmt.Sprint("next", round, name) // a late copy of a request must not meet its owner again
			g, err := s.Acquire(ctx, wants(fmt.Sprint("o", round, name), "k", 1000))
			if err != nil {
				t.Fatal(err)
			}
			reserved = max(reserved, g.HandOffs)
			release(t, s, g)
			got, err := s.Acquire(ctx, next)
			if err != nil {
				t.Fatal(err)
			}
			if got.Token <= g.Token+g.HandOffs {
				t.Errorf("round %d, %s: token %d follows %d with %d reserved", round, name, got.Token, g.Token, g.HandOffs)
			}
			release(t, s, got)
		}
	}
	if reserved != 1000 {
		t.Errorf("%d tokens were reserved at most", reserved)
	}
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
