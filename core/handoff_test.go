package core_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/memstore"
)

// crowd is callers who wait for "k" and hold it one after the other.
type crowd struct {
	t      *testing.T
	all    sync.WaitGroup
	mu     sync.Mutex
	order  []string
	leases []*core.Lease
}

// join has one more caller wait, and then hold the key for so long.
func (c *crowd) join(eng *core.Engine, name string, hold time.Duration, opts ...core.CallOption) {
	c.t.Helper()
	c.all.Go(func() {
		l := mustAcquire(c.t, eng, "k", opts...)
		c.mu.Lock()
		c.order, c.leases = append(c.order, name), append(c.leases, l)
		c.mu.Unlock()
		time.Sleep(hold)
		mustRelease(c.t, l)
	})
	synctest.Wait()
}

func (c *crowd) names(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// The waiters of one process are served in the order they came. The store never sees more than one of
// them (redsync#102, #122), which asks once, however long it waits (rueidis#602, rueidis#372), and whose grant serves
// the whole line, with tokens that rise. None sleeps past its turn. (redisson#3891, rueidis#653)
func TestHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy, eng := newSpied(t, core.WithMaxHold(core.Forever), core.WithMaxWait(core.Forever))
		c := &crowd{t: t}
		holder := mustAcquire(t, eng, "k")
		for i := range 15 {
			c.join(eng, fmt.Sprint(i), time.Millisecond)
		}
		time.Sleep(time.Hour)
		began := time.Now()
		mustRelease(t, holder)
		c.all.Wait()
		wantTook(t, began, 15*time.Millisecond)
		if spy.requests() != 2 || spy.mostAtOne != 1 || !slices.Equal(c.order, c.names(15)) { // by the holder, and by the first waiter
			t.Errorf("%d requests, %d at a time; served in the order %v", spy.requests(), spy.mostAtOne, c.order)
		}
		first := c.leases[0]
		for i, l := range c.leases {
			if core.Observed(l).HandedOff() != (i > 0) || l.Owner() != first.Owner() || l.Token() != first.Token()+uint64(i) {
				t.Errorf("token %d after %d, owner %s after %s, handed off: %t", l.Token(), first.Token(), l.Owner(), first.Owner(), core.Observed(l).HandedOff())
			}
		}
		l := mustAcquire(t, eng, "k")
		if l.Token() <= first.Token()+14 || core.Observed(l).HandedOff() {
			t.Errorf("the next grant has token %d after %d", l.Token(), first.Token()+14)
		}
		mustRelease(t, l)
	})
}

// While another process waits, a streak ends with those who stood in line when
// the grant came.
func TestHandOffLeavesTurnsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		here, there := newEngine(t, store), newEngine(t, store.Peer())
		c := &crowd{t: t}
		outside := mustAcquire(t, newEngine(t, store.Peer()), "k", core.WithFailFast())
		c.join(here, "here 0", time.Millisecond)
		c.join(here, "here 1", time.Millisecond)
		c.join(here, "here 2", time.Millisecond)
		c.join(there, "there 0", time.Millisecond)
		c.join(there, "there 1", time.Millisecond)
		mustRelease(t, outside)
		time.Sleep(500 * time.Microsecond)
		c.join(here, "here 3", 0) // the grant is there: behind the other process
		c.all.Wait()
		want := []string{"here 0", "here 1", "here 2", "there 0", "there 1", "here 3"}
		check(t, slices.Equal(c.order, want), "served in the order %v, want %v", c.order, want)
	})
}

// Each holder's time is its own, and the term goes on: it is renewed a third of the TTL
// after the store's last word, whoever has it then. That is the grant, or the answer
// to a holder of more than a moment who asked before it handed the lease on.
func TestHandedOffLeaseIsRenewedInTime(t *testing.T) {
	for hold, asks := range map[time.Duration]int{9 * time.Millisecond: 0, 90 * time.Millisecond: 1} {
		inBubble(t, hold.String(), func(t *testing.T) {
			const ttl = 3 * time.Second
			spy, eng := newSpied(t)
			last := time.Now()
			first := mustAcquire(t, eng, "k", core.WithTTL(ttl))
			deadline := first.Deadline()
			time.Sleep(hold)
			got := make(chan *core.Lease)
			go func() { got <- mustAcquire(t, eng, "k", core.WithTTL(ttl)) }()
			synctest.Wait()
			if asks > 0 {
				last, deadline = time.Now(), deadline.Add(hold)
			}
			mustRelease(t, first)
			l := <-got
			if !core.Observed(l).HandedOff() || spy.renewals() != asks {
				t.Fatalf("handed off: %t; the store was asked %d times", core.Observed(l).HandedOff(), spy.renewals())
			}
			check(t, l.Deadline().Equal(deadline), "the deadline is %v, want %v", l.Deadline(), deadline)
			time.Sleep(time.Until(last.Add(time.Second + time.Millisecond)))
			synctest.Wait()
			if left := time.Until(l.Deadline()); left < 2900*time.Millisecond {
				t.Errorf("not renewed after a third of the TTL: %v left", left)
			}
			time.Sleep(10 * time.Second)
			mustRelease(t, l)
		})
	}
}

// A lease that is held for long has no line, so that many of them cost little;
// and who comes for its key then waits as for any other.
func TestLongHoldsNeedNoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := newEngine(t, newSpy(), core.WithTTL(time.Hour), core.WithMaxHold(core.Forever))
		var held []*core.Lease
		for i := range 5000 {
			held = append(held, mustAcquire(t, eng, fmt.Sprint("k", i)))
			time.Sleep(time.Millisecond)
		}
		if n := core.Lines(eng); n > 1500 {
			t.Errorf("%d lines for %d leases", n, len(held))
		}
		got := make(chan *core.Lease)
		go func() { got <- mustAcquire(t, eng, "k0") }()
		synctest.Wait()
		mustRelease(t, held[0])
		mustRelease(t, <-got)
		for _, l := range held[1:] {
			mustRelease(t, l)
		}
		wantEqual(t, "lines left", core.Lines(eng), 0)
	})
}
