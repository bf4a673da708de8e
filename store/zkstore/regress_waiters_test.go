package zkstore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// A waiter knew nothing of a release that keeps the key for a while, and found the key free when it looked by
// itself, after a third of the session. It also has to learn of one of two permits.
func TestAWaiterLearnsOfARelease(t *testing.T) {
	t.Parallel()
	const rounds, looks = 5, session / 3
	z := newScene(t)
	a, b := z.open(t), z.open(t)
	for claim, stay := range map[driver.Claim]time.Duration{driver.Exclusive("k"): 50 * time.Millisecond, driver.Permit("p", 2): 0} {
		claims := func() driver.Request {
			return driver.Request{Owner: request("k", 0).Owner, Claims: []driver.Claim{claim}, TTL: time.Minute}
		}
		if claim.Permits > 0 {
			hold(t, a, claims())
		}
		var waited time.Duration
		for range rounds {
			g := hold(t, a, claims())
			w := enqueue(t, b, claims())
			released := time.Now()
			g.MinHold = stay
			release(t, a, g)
			next := w.Granted()
			waited += time.Since(released)
			release(t, b, next)
		}
		check(t, waited/rounds <= looks*2/3, "waiters had %s %v after its release, and look by themselves after %v", claim.Key, waited/rounds, looks)
	}
}

// TestReconnectsWithWatches breaks the connection of a process that waits, again and again, while it sends
// other requests. The client of ZooKeeper has a data race then, if an answer overtakes its request
// for the watches (the test is for the race detector).
func TestReconnectsWithWatches(t *testing.T) {
	servertest.LongParallel(t)
	z := newScene(t)
	proxy := servertest.NewProxy(t, z.addr)
	s, other := z.openAt(t, proxy.Addr()), z.open(t)
	held := hold(t, other, request("k", time.Minute))
	w := enqueue(t, s, request("k", time.Minute))
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Inspect(t.Context(), "k")
			}
		})
	}
	for range 30 {
		proxy.Cut()
		proxy.Heal()
		wantIs(t, "after the connection broke", checktest.ErrorOf(s.Inspect(t.Context(), "k")), nil)
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	all.Wait()
	release(t, other, held)
	w.Granted()
}

// TestHurriedCallersAreNoOutage: callers who leave the servers a few milliseconds fill the connection of their process
// with questions that nobody waits for any more. Their errors looked like an outage: the circuit opened, and a rule
// that may run without its lock in an outage ran beside the holder, although the servers were well.
func TestHurriedCallersAreNoOutage(t *testing.T) {
	servertest.LongParallel(t)
	z := newScene(t)
	hold(t, z.open(t), request("held", time.Minute))
	eng, err := core.New(z.open(t), core.WithRunUnlocked())
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(context.Background()) })

	var ran atomic.Int32
	var callers sync.WaitGroup
	end := time.Now().Add(4 * time.Second)
	for range 40 {
		callers.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond+rand.N(29*time.Millisecond))
				_ = eng.Do(ctx, "held", func(context.Context) error { ran.Add(1); return nil })
				cancel()
			}
		})
	}
	callers.Wait()
	n := ran.Load()
	check(t, n <= 0, "%d calls ran beside the holder", n)
	err = eng.Do(t.Context(), "free", func(ctx context.Context) error { return core.AssertHeld(ctx, core.Exclusive("free")) })
	wantIs(t, "a patient caller, afterwards", err, nil)
}
