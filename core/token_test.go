package core_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// A client that knows no numbers but doubles tells each lease from the next, along hand-offs
// and grants, today and in the year 2199.
func TestTokensInDoubles(t *testing.T) {
	for _, year := range []int{2026, 2199} {
		t.Run(strconv.Itoa(year), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)))
				eng := newEngine(t, memstore.New())
				c := &crowd{t: t}
				first := mustAcquire(t, eng, "k")
				for i := range 40 {
					c.join(eng, strconv.Itoa(i), time.Millisecond)
				}
				mustRelease(t, first)
				c.all.Wait()
				handed, last := 0, inJSON(t, first.Token())
				for _, l := range c.leases {
					if l.Owner() == first.Owner() {
						handed++
					}
					token := inJSON(t, l.Token())
					if token <= last || token >= 1<<53 {
						t.Fatalf("token %d is %.0f in a double, after %.0f", l.Token(), token, last)
					}
					last = token
				}
				if handed == 0 || handed == len(c.leases) {
					t.Errorf("%d of %d leases were handed on from the first; both ways are to be seen", handed, len(c.leases))
				}
			})
		})
	}
}

// inJSON is the token as a client reads it that has doubles only.
func inJSON(t *testing.T, token uint64) (got float64) {
	t.Helper()
	text, err := json.Marshal(map[string]uint64{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]float64
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m["token"]
}

// A process hands a lease on and is never heard of again: the next grant's token is greater
// than those that it may have given. It all happens in one moment, so the clock does not help.
func TestTokensOfAProcessThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		dies, other := newEngine(t, store.Peer()), newEngine(t, store)
		c := &crowd{t: t}
		first := mustAcquire(t, dies, "k")
		for i := range 14 {
			c.join(dies, strconv.Itoa(i), 0)
		}
		var last *core.Lease
		c.all.Go(func() { last = mustAcquire(t, dies, "k") })
		synctest.Wait()
		mustRelease(t, first)
		c.all.Wait()
		if last.Token() != first.Token()+15 {
			t.Fatalf("token %d after %d and 15 hand-offs", last.Token(), first.Token())
		}
		if _, err := other.ForceRelease(context.Background(), "k", "test"); err != nil {
			t.Fatal(err)
		}
		next := mustAcquire(t, other, "k")
		if next.Token() <= last.Token() {
			t.Errorf("token %d after %d", next.Token(), last.Token())
		}
		mustRelease(t, next)
		_ = last.Release(context.Background())
	})
}
