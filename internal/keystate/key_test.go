package keystate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/keystate"
)

// TestManyMembers: holders stay in the order of their tokens, waiters in that of their arrival, and every
// owner is found, however many there are and in whatever order they come and go.
func TestManyMembers(t *testing.T) {
	choices := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		k, in, size := &keystate.Key{Name: "k"}, map[string]*keystate.Member{}, 4+round%60
		for range 10 * size {
			owner := fmt.Sprint("owner ", choices.IntN(size))
			if m := in[owner]; m != nil {
				k.Remove(m)
				delete(in, owner)
			} else {
				m = &keystate.Member{Owner: owner, Waits: choices.IntN(2) == 0, Mode: driver.Mode(choices.IntN(3))}
				m.Token, m.Arrived = choices.Uint64N(1000), 1+choices.Uint64N(1000)
				in[owner] = m
				k.Add(m)
			}
			for i := range size {
				if owner := fmt.Sprint("owner ", i); k.Find(owner) != in[owner] {
					t.Fatalf("found %+v for %s, want %+v", k.Find(owner), owner, in[owner])
				}
			}
			holders, waiters := k.Holders(), k.Waiters()
			byArrival := func(a, b *keystate.Member) int { return cmp.Compare(a.Arrived, b.Arrived) }
			byToken := func(a, b *keystate.Member) int { return cmp.Compare(a.Token, b.Token) }
			require(t, slices.IsSortedFunc(holders, byToken) && slices.IsSortedFunc(waiters, byArrival), "holders %v, waiters %v", holders, waiters)
			if len(holders)+len(waiters) != len(in) || k.IsFree() != (len(in) == 0) || k.Waiting() != len(waiters) {
				t.Fatalf("%d holders and %d waiters of %d members", len(holders), len(waiters), len(in))
			}
		}
	}
}
