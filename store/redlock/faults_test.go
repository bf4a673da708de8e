package redlock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redlock"
)

// TestMinorityDead kills two of five nodes (fault 13), and then a third.
func TestMinorityDead(t *testing.T) {
	servertest.Long(t)
	f := started(t)
	a, b := f.open(t), f.open(t)
	held := lock(t, a, "o1", "held", time.Minute)
	f.servers[1].Kill()
	f.servers[3].Kill()
	for i := range 20 {
		key, owner := fmt.Sprint("key", i), fmt.Sprint("owner", i)
		g := lock(t, a, owner, key, time.Minute)
		wantIs(t, "a key that three of five nodes keep", ask(t, b, "other", key), driver.ErrHeld)
		must(t, renew(t, a, g))
		release(t, a, g)
	}
	wantIs(t, "Renew of a lease from before", renew(t, a, held), nil)

	f.servers[0].Kill()
	err := ask(t, a, "o2", "free")
	outage := errors.Is(err, driver.ErrUnavailable) && errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, driver.ErrHeld)
	check(t, outage, "Acquire with two of five nodes: %v", err)
	var of *redlock.NodeError
	check(t, errors.As(err, &of), "the error names no node: %v", err)
	err = renew(t, a, held)
	check(t, err != nil && !errors.Is(err, driver.ErrLeaseLost), "Renew with two of five nodes: %v", err)
}

// TestAmnesia: a lease is on three nodes while two are silent. One of the three is started anew
// without its data, and the two are back (fault 14). It must not help another owner to a quorum.
func TestAmnesia(t *testing.T) {
	servertest.Long(t)
	const maxTTL = 2 * time.Second
	t.Run("abstains", func(t *testing.T) {
		f := started(t, redlock.WithMaxTTL(maxTTL))
		a, b := f.open(t, redlock.WithMaxTTL(maxTTL)), f.open(t, redlock.WithMaxTTL(maxTTL))
		g := f.forgetful(t, a, "key", maxTTL)
		began := time.Now()
		for end := g.Since.Add(maxTTL - 50*time.Millisecond); time.Now().Before(end); {
			h, err := b.Acquire(within(t, time.Second), request("other", "key", maxTTL))
			require(t, err != nil || !time.Now().Before(g.Since.Add(maxTTL)), "%v after the restart, a second owner has %+v", time.Since(began), h)
			if err == nil {
				break // the first lease was over by then
			}
			time.Sleep(20 * time.Millisecond)
		}
		// It votes again: with two others dead there is a quorum only with it.
		time.Sleep(time.Until(began.Add(maxTTL + 100*time.Millisecond)))
		f.servers[0].Kill()
		f.servers[1].Kill()
		h := lock(t, b, "later", "another", maxTTL)
		check(t, h.Token > g.Token, "token %d after %d", h.Token, g.Token)
	})
	// The control: without abstention the same nodes give two owners the key.
	t.Run("control", func(t *testing.T) {
		f := started(t)
		a, b := f.open(t, redlock.WithPersistent()), f.open(t, redlock.WithPersistent())
		g := f.forgetful(t, a, "key", time.Minute)
		h, err := b.Acquire(within(t, 5*time.Second), request("other", "key", time.Minute))
		must(t, err)
		t.Logf("two owners have the key, with tokens %d and %d", g.Token, h.Token)
	})
}

// forgetful grants a lease on nodes 0 to 2 while 3 and 4 are silent, lets node 2 forget it, and brings the two back.
func (f *fleet) forgetful(t *testing.T, s *redlock.Store, key string, ttl time.Duration) driver.Grant {
	t.Helper()
	f.servers[3].Pause()
	f.servers[4].Pause()
	g := lock(t, s, "first", key, ttl)
	f.servers[2].Restart(t)
	f.servers[3].Resume()
	f.servers[4].Resume()
	// What the two were sent reaches them now. It would be a vote for the owner, as if they had
	// never been away. The scene is one where it was lost.
	f.forget(t, key, 300*time.Millisecond, 3, 4)
	return g
}

// TestNewNodesAbstain: nobody knows what nodes without a mark have forgotten.
func TestNewNodesAbstain(t *testing.T) {
	servertest.Long(t)
	f := start(t)
	s := f.open(t, redlock.WithMaxTTL(time.Second))
	began := time.Now()
	err := ask(t, s, "o", "key")
	var down *driver.UnavailableError
	check(t, errors.Is(err, redlock.ErrAbstaining) && errors.As(err, &down) && down.Refused, "Acquire on new nodes: %v", err)
	eventually(t, "new nodes vote", func() bool { return ask(t, s, "o", "key") == nil })
	took := time.Since(began)
	check(t, took >= 900*time.Millisecond, "new nodes voted after %v, want the longest TTL of 1s", took)
	wantIs(t, "Init of nodes in use", s.Init(within(t, 5*time.Second)), redlock.ErrNotNew)
}

// TestNodesThatRefuseTheClient serve others, so that this is no outage (core.WithRunUnlocked).
func TestNodesThatRefuseTheClient(t *testing.T) {
	f := started(t)
	s := f.open(t)
	for _, server := range f.servers[:3] {
		must(t, server.Client().Do(within(t, 5*time.Second), "acl", "setuser", "default", "-eval", "-evalsha").Err())
	}
	err := ask(t, s, "o", "key")
	var down *driver.UnavailableError
	check(t, errors.As(err, &down) && down.Refused, "want a refusal, got %v", err)
}

// TestSlowNode: one node answers after longer than the node timeout, and one is dead. Nobody waits for either.
func TestSlowNode(t *testing.T) {
	servertest.Long(t)
	f := started(t)
	const delay = 300 * time.Millisecond
	slow := servertest.NewProxy(t, f.servers[2].Addr())
	slow.Delay(delay / 2) // both ways
	s, err := redlock.New(f.clients(func(i int, o *redis.Options) {
		if i == 2 {
			o.Addr = slow.Addr()
		}
	}))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f.servers[4].Kill()
	lock(t, s, "first", "first", time.Minute) // connects
	var quick int
	const rounds = 40
	for i := range rounds {
		began := time.Now()
		release(t, s, lock(t, s, fmt.Sprint("o", i), fmt.Sprint("key", i), time.Minute))
		if time.Since(began) < delay/2 {
			quick++
		}
	}
	check(t, quick >= rounds*3/4, "%d of %d acquisitions were served without the slow node", quick, rounds)
	// The slow node got each release behind the vote that it undoes.
	c := f.servers[2].Client()
	eventually(t, "the slow node has no vote left", func() bool {
		left, err := c.Keys(within(t, 5*time.Second), "lock:key*").Result()
		return err == nil && len(left) == 0
	})
}

// TestNothingIsReservedAheadOfTheClock: the clocks were set back by an hour after the last grant. Tokens would run further
// ahead of them with each grant, and fall when the data is lost.
func TestNothingIsReservedAheadOfTheClock(t *testing.T) {
	f := sharing(t)
	s := f.open(t)
	last := time.Now().Add(time.Hour).UnixMicro()
	for _, server := range f.servers {
		must(t, server.Client().Set(t.Context(), "{lock:k}:t", last, 2*time.Hour).Err())
	}
	req := request("o", "k", time.Minute)
	req.HandOffs = 1000
	g, err := s.Acquire(within(t, 10*time.Second), req)
	must(t, err)
	check(t, g.Token == uint64(last)+1 && g.HandOffs == 0, "token %d after %d, with %d behind it", g.Token, last, g.HandOffs)
}

// TestDeadNodeKeepsNothing: what a dead node is owed does not pile up, and delays no Close.
func TestDeadNodeKeepsNothing(t *testing.T) {
	servertest.Long(t)
	f := started(t)
	s := f.open(t)
	lock(t, s, "first", "first", time.Minute)
	f.servers[4].Kill()
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for j := range 30 {
				req := request(fmt.Sprintf("o%d.%d", i, j), fmt.Sprintf("key%d.%d", i, j), time.Minute)
				req.Wait = true
				g, err := s.Acquire(within(t, 30*time.Second), req)
				must(t, err)
				release(t, s, g)
			}
		})
	}
	all.Wait()
	wantIs(t, "Close", s.Close(), nil)
}
