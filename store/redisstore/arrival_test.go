package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// TestPermitDoesNotPassAReader who came before it, though there is room for it:
// the reader would wait for as long as permits are asked for.
func TestPermitDoesNotPassAReader(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t).Client(), noPolling)
	first, second := lease(t, s, "first", driver.Permit("k", 2)), lease(t, s, "second", driver.Permit("k", 2))
	before := enqueueFor(t, s, "before", driver.Permit("k", 2))
	reader := enqueueFor(t, s, "reader", driver.Shared("k"))
	behind := enqueueFor(t, s, "behind", driver.Permit("k", 3))

	release(t, s, first)
	third := before.granted(soon) // it came before the reader
	select {
	case <-behind.done:
		t.Fatal("a permit was granted to one who came after a reader that waits")
	case <-time.After(50 * time.Millisecond):
	}
	release(t, s, second)
	release(t, s, third)
	release(t, s, reader.granted(soon))
	release(t, s, behind.granted(soon))
}

// TestWaitersAreShownInOrderOfArrival at the key, not of asking: a set comes to
// its second key later.
func TestWaitersAreShownInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t).Client(), noPolling)
	a := lease(t, s, "holder-a", driver.Exclusive("a"))
	b := lease(t, s, "holder-b", driver.Exclusive("b"))
	set := enqueueFor(t, s, "set", driver.Exclusive("a"), driver.Shared("b"))
	time.Sleep(10 * time.Millisecond) // so that the set asked a while before
	writer := enqueueFor(t, s, "writer", driver.Exclusive("b"))
	release(t, s, a)
	eventually(t, soon, "the set waits for b", func() bool { return len(waiters(t, s, "b")) == 2 })
	if got := waiters(t, s, "b"); got[0].Owner != "writer" || got[1].Owner != "set" {
		t.Errorf("the writer was first at b, shown are %+v", got)
	}
	release(t, s, b)
	release(t, s, set.granted(soon)) // a reader, after an exclusive lease
	release(t, s, writer.granted(soon))
}

func waiters(t *testing.T, s driver.Store, key string) []driver.Waiter {
	t.Helper()
	info, err := s.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info.Waiters
}
