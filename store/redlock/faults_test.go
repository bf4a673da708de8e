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
		if _, err := b.Acquire(within(t, 5*time.Second), request("other", key, time.Minute)); !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("a key that three of five nodes keep: %v", err)
		}
		if err := a.Renew(within(t, 5*time.Second), []driver.Grant{g})[0]; err != nil {
			t.Fatalf("Renew: %v", err)
		}
		if err := a.Release(within(t, 5*time.Second), g); err != nil {
			t.Fatalf("Release: %v", err)
		}
	}
	if err := a.Renew(within(t, 5*time.Second), []driver.Grant{held})[0]; err != nil {
		t.Errorf("Renew of a lease from before: %v", err)
	}

	f.servers[0].Kill()
	_, err := a.Acquire(within(t, 5*time.Second), request("o2", "free", time.Minute))
	if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, driver.ErrHeld) {
		t.Errorf("Acquire with two of five nodes: %v", err)
	}
	var of *redlock.NodeError
	if !errors.As(err, &of) {
		t.Errorf("the error names no node: %v", err)
	}
	if err := a.Renew(within(t, 5*time.Second), []driver.Grant{held})[0]; err == nil || errors.Is(err, driver.ErrLeaseLost) {
		t.Errorf("Renew with two of five nodes: %v", err)
	}
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
			if err == nil && time.Now().Before(g.Since.Add(maxTTL)) {
				t.Fatalf("%v after the restart, a second owner has %+v", time.Since(began), h)
			}
			if err == nil {
				break // the first lease was over by then
			}
			time.Sleep(20 * time.Millisecond)
		}
		// It votes again: with two others dead there is a quorum only with it.
		time.Sleep(time.Until(began.Add(maxTTL + 100*time.Millisecond)))
		f.servers[0].Kill()
		f.servers[1].Kill()
		if h := lock(t, b, "later", "another", maxTTL); h.Token <= g.Token {
			t.Errorf("token %d after %d", h.Token, g.Token)
		}
	})
	// The control: without abstention the same nodes give two owners the key.
	t.Run("control", func(t *testing.T) {
		f := started(t)
		a, b := f.open(t, redlock.WithPersistent()), f.open(t, redlock.WithPersistent())
		g := f.forgetful(t, a, "key", time.Minute)
		h, err := b.Acquire(within(t, 5*time.Second), request("other", "key", time.Minute))
		if err != nil {
			t.Fatalf("nodes that forget and vote at once gave no second lease: %v", err)
		}
		t.Logf("two owners have the key, with tokens %d and %d", g.Token, h.Token)
	})
}

// forgetful grants a lease on nodes 0 to 2 while 3 and 4 are silent, lets node 2 forget it, and
// brings the two back.
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
	for _, i := range []int{3, 4} {
		c := f.servers[i].Client()
		deadline := time.Now().Add(300 * time.Millisecond)
		for time.Now().Before(deadline) {
			if err := c.Del(within(t, 5*time.Second), "lock:"+key).Err(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return g
}

// TestNewNodesAbstain: nobody knows what nodes without a mark have forgotten.
func TestNewNodesAbstain(t *testing.T) {
	servertest.Long(t)
	f := start(t)
	s := f.open(t, redlock.WithMaxTTL(time.Second))
	began := time.Now()
	_, err := s.Acquire(within(t, 5*time.Second), request("o", "key", time.Second))
	var down *driver.UnavailableError
	if !errors.Is(err, redlock.ErrAbstaining) || !errors.As(err, &down) || !down.Refused {
		t.Fatalf("Acquire on new nodes: %v", err)
	}
	for {
		if _, err = s.Acquire(within(t, 5*time.Second), request("o", "key", time.Second)); err == nil {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("new nodes never vote: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("new nodes voted after %v, want the longest TTL of 1s", took)
	}
	if err := s.Init(within(t, 5*time.Second)); !errors.Is(err, redlock.ErrNotNew) {
		t.Errorf("Init of nodes in use: %v", err)
	}
}

// TestNodesThatRefuseTheClient serve others, so that this is no outage (core.WithRunUnlocked).
func TestNodesThatRefuseTheClient(t *testing.T) {
	f := started(t)
	s := f.open(t)
	for _, server := range f.servers[:3] {
		if err := server.Client().Do(within(t, 5*time.Second), "acl", "setuser", "default", "-eval", "-evalsha").Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Acquire(within(t, 5*time.Second), request("o", "key", time.Second))
	var down *driver.UnavailableError
	if !errors.As(err, &down) || !down.Refused {
		t.Fatalf("want a refusal, got %v", err)
	}
}

// TestSlowNode: one node answers after longer than the node timeout, and one is dead. Nobody waits
// for either.
func TestSlowNode(t *testing.T) {
	servertest.Long(t)
	f := started(t)
	const delay = 300 * time.Millisecond
	var clients []*redis.Client
	for i, server := range f.servers {
		addr := server.Addr()
		if i == 2 {
			slow := servertest.NewProxy(t, addr)
			slow.Delay(delay / 2) // both ways
			addr = slow.Addr()
		}
		clients = append(clients, server.Client(func(o *redis.Options) { o.Addr = addr }))
	}
	s, err := redlock.New(clients)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f.servers[4].Kill()
	lock(t, s, "first", "first", time.Minute) // connects
	var quick int
	const rounds = 40
	for i := range rounds {
		began := time.Now()
		g := lock(t, s, fmt.Sprint("o", i), fmt.Sprint("key", i), time.Minute)
		if err := s.Release(within(t, 5*time.Second), g); err != nil {
			t.Fatalf("Release: %v", err)
		}
		if time.Since(began) < delay/2 {
			quick++
		}
	}
	if quick < rounds*3/4 {
		t.Errorf("%d of %d acquisitions were served without the slow node", quick, rounds)
	}
	// The slow node got each release behind the vote that it undoes.
	c := f.servers[2].Client()
	eventually(t, "the slow node has no vote left", func() bool {
		left, err := c.Keys(within(t, 5*time.Second), "lock:key*").Result()
		return err == nil && len(left) == 0
	})
}

// TestTokensRise over the loss of any minority, and restarts without data.
func TestTokensRise(t *testing.T) {
	servertest.Long(t)
	const maxTTL = time.Second
	f := started(t, redlock.WithMaxTTL(maxTTL))
	a, b := f.open(t, redlock.WithMaxTTL(maxTTL)), f.open(t, redlock.WithMaxTTL(maxTTL))
	var last uint64
	n := 0
	grant := func(s *redlock.Store) {
		t.Helper()
		n++
		deadline := time.Now().Add(10 * time.Second)
		for {
			req := request(fmt.Sprint("o", n), "key", maxTTL)
			req.HandOffs = 1000
			g, err := s.Acquire(within(t, 5*time.Second), req)
			if err == nil {
				if g.Token <= last {
					t.Fatalf("grant %d has token %d, and %d was given before", n, g.Token, last)
				}
				last = g.Token + g.HandOffs
				_ = s.Release(within(t, 5*time.Second), g)
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no grant: %v", err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for i := range nodes {
		j := (i + 1 + i%3) % nodes
		f.servers[i].Pause()
		f.servers[j].Pause()
		for range 3 {
			grant(a)
			grant(b)
		}
		f.servers[i].Resume()
		f.servers[j].Resume()
		grant(b)
		f.servers[i].Restart(t)
		for range 3 {
			grant(a)
			grant(b)
		}
		time.Sleep(maxTTL + 50*time.Millisecond) // or too many abstain
		grant(a)
	}
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
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if err := s.Release(within(t, 30*time.Second), g); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
