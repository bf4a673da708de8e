package memstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/storetest"
)

// TestLateTimer: a request that comes between the end of a lease and its timer does not overtake the line.
func TestLateTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		mustAcquire(t, s, request("k", 0, time.Second))
		first := enqueue(t, s, request("k", 1, time.Minute))
		s.mem.shard("k").entries["k"].timer.Stop()
		time.Sleep(time.Hour)
		_, err := s.Acquire(bg, request("k", 2, time.Second))
		wantIs(t, "the newcomer", err, driver.ErrHeld)
		first.Granted()
	})
}

// TestAnswerBeforeEnd: a wait that is answered, and then ends before it has seen
// the answer, returns the answer, or all would wait for a lease nobody has.
func TestAnswerBeforeEnd(t *testing.T) {
	for i := range 100 {
		s := New()
		g := mustAcquire(t, s, request("k", 0, time.Hour))
		ctx, end := context.WithCancel(bg)
		if i%2 == 0 {
			end = func() { _ = s.Close() }
		}
		req := request("k", 1, time.Hour)
		req.Wait = true
		req.OnHeld = func(driver.HeldError) {
			storetest.Release(t, s, g)
			end()
		}
		g, err := s.Acquire(ctx, req)
		require(t, err == nil, "granted before it ended, and got: %v", err)
		storetest.Release(t, s, g)
		checkEmpty(t, s)
	}
}

func TestBadClaims(t *testing.T) {
	s := New()
	for key, claims := range map[string][]driver.Claim{
		"":  nil,
		"a": {driver.Permit("a", 0)},
		"b": {driver.Exclusive("a"), {Key: "b", Mode: 7}},
	} {
		_, err := s.Acquire(bg, driver.Request{Owner: "o", Claims: claims, TTL: time.Second, Wait: true})
		wantIs(t, fmt.Sprint("Acquire of ", claims), err, driver.ErrInvalidClaim)
		bad := (*driver.ClaimError)(nil)
		expect(t, errors.As(err, &bad) && bad.Key == key, "%v, want one about %q", err, key)
	}
	for _, claims := range [][]driver.Claim{
		nil, {driver.Shared("a")}, {driver.Permit("a", 2)}, {driver.Exclusive("a"), driver.Exclusive("b")},
	} {
		_, _, err := s.Begin(bg, driver.Request{Owner: "o", Claims: claims, TTL: time.Second})
		wantIs(t, fmt.Sprint("Begin of ", claims), err, errors.ErrUnsupported)
	}
	checkEmpty(t, s)
}

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
			next := enqueue(t, s, lingering)
			time.Sleep(ttl) // nobody releases the first lease
			last := enqueue(t, s, request("k", 2, ttl))

			g := next.Granted()
			require(t, len(wanted) == 1 && wanted[0] == g.Owner, "granted to %q, wanted from %q", g.Owner, wanted)
			storetest.Release(t, s, g)
			last.Granted()
		})
	}
}
