package memstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request that finds a lease at its end lets the next in line in, and then stands behind it. If that one may
// linger, it is told in the same step that somebody wants its key. The store took it for a waiter still, and panicked.
// Which of two timers of one instant comes first is by chance, so it is tried several times.
func TestALeaseIsWantedInTheStepThatGrantsIt(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			const ttl = time.Second
			s := New()
			var wanted []string
			s.Describe().OnWanted(func(_, owner string) { wanted = append(wanted, owner) })
			mustAcquire(t, s, request("k", 0, ttl))
			lingering := request("k", 1, ttl)
			lingering.Linger = true
			next := enqueue(t, bg, s, lingering)
			time.Sleep(ttl) // nobody releases the first lease
			last := enqueue(t, bg, s, request("k", 2, ttl))

			o := <-next
			if o.err != nil || len(wanted) != 1 || wanted[0] != o.grant.Owner {
				t.Fatalf("granted to %q (%v), wanted from %q", o.grant.Owner, o.err, wanted)
			}
			if err := s.Release(bg, o.grant); err != nil {
				t.Fatal(err)
			}
			if o := <-last; o.err != nil {
				t.Fatal(o.err)
			}
		})
	}
}
