package redlock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redlock"
)

// TestQuorumsMeet: one node lets a lease end too soon, as when its clock jumps. Quorums of three of five meet in a
// single node, so that node may give the key to a second owner. Quorums of four meet in three.
func TestQuorumsMeet(t *testing.T) {
	servertest.Long(t)
	for _, tc := range []struct {
		quorum  int
		overlap bool
	}{{3, true}, {4, false}} {
		f := started(t)
		a, b := f.open(t, redlock.WithQuorum(tc.quorum)), f.open(t, redlock.WithQuorum(tc.quorum))
		down := nodes - tc.quorum // as many as may be
		for i := range down {
			f.servers[nodes-1-i].Pause()
		}
		lock(t, a, "first", "key", time.Minute)
		for i := range down {
			f.servers[nodes-1-i].Resume()
		}
		// The paused nodes read the votes late. Here they got none.
		for i := tc.quorum - 1; i < nodes; i++ {
			f.forget(t, "key", 200*time.Millisecond, i)
		}
		err := ask(t, b, "second", "key")
		check(t, (err == nil) == tc.overlap, "a second owner with a quorum of %d of %d: %v", tc.quorum, nodes, err)
	}
}

// nowhere are n clients of servers that do not exist.
func nowhere(t *testing.T, n int) (clients []*redis.Client) {
	for i := range n {
		c := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", i+1)})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

func TestOptions(t *testing.T) {
	five := nowhere(t, 5)
	for _, tc := range []struct {
		name  string
		nodes []*redis.Client
		opts  []redlock.Option
		bad   string // the option that is wrong; "": none
	}{
		{"five", five, nil, ""},
		{"three", five[:3], nil, ""},
		{"none", nil, nil, "New"},
		{"one", five[:1], nil, "New"},
		{"four", five[:4], nil, "New"},
		{"a nil client", []*redis.Client{five[0], nil, five[1]}, nil, "New"},
		{"one twice", []*redis.Client{five[0], five[1], five[0]}, nil, "New"},
		{"a nil option", five, []redlock.Option{nil}, "New"},
		{"quorum 2 of 5", five, []redlock.Option{redlock.WithQuorum(2)}, "WithQuorum"},
		{"quorum 6 of 5", five, []redlock.Option{redlock.WithQuorum(6)}, "WithQuorum"},
		{"quorum 0", five, []redlock.Option{redlock.WithQuorum(0)}, "WithQuorum"},
		{"quorum 4", five, []redlock.Option{redlock.WithQuorum(4)}, ""},
		{"short TTL", five, []redlock.Option{redlock.WithMaxTTL(time.Millisecond)}, "WithMaxTTL"},
		{"long TTL", five, []redlock.Option{redlock.WithMaxTTL(25 * time.Hour)}, "WithMaxTTL"},
		{"no timeout", five, []redlock.Option{redlock.WithNodeTimeout(0)}, "WithNodeTimeout"},
		{"long timeout", five, []redlock.Option{redlock.WithNodeTimeout(time.Minute)}, "WithNodeTimeout"},
		{"prefix", five, []redlock.Option{redlock.WithPrefix("a{b")}, "WithPrefix"},
		{"no prefix", five, []redlock.Option{redlock.WithPrefix("")}, ""},
	} {
		s, err := redlock.New(tc.nodes, tc.opts...)
		var bad *driver.OptionError
		if tc.bad != "" {
			check(t, errors.As(err, &bad) && bad.Option == tc.bad, "%s: %v, want an error of %s", tc.name, err, tc.bad)
			continue
		}
		wantIs(t, tc.name, err, nil)
		wantNil(t, s.Close())
	}
	// All that is wrong is told at once.
	_, err := redlock.New(nil, redlock.WithNodeTimeout(0), redlock.WithMaxTTL(0))
	n := len(err.(interface{ Unwrap() []error }).Unwrap())
	check(t, n == 3, "%d errors of 3: %v", n, err)
}

// TestBeyond: what the store can't do is refused before any I/O.
func TestBeyond(t *testing.T) {
	s := over(t, nowhere(t, 3), redlock.WithMaxTTL(time.Second))
	for _, claims := range [][]driver.Claim{
		{driver.Shared("a")}, {driver.Permit("a", 2)}, {driver.Exclusive("a"), driver.Exclusive("b")},
	} {
		_, err := s.Acquire(within(t, time.Second), driver.Request{Owner: "o", Claims: claims, TTL: time.Second})
		check(t, errors.Is(err, errors.ErrUnsupported), "%v: %v", claims, err)
	}
	wantIs(t, "a TTL above the longest", checktest.ErrorOf(s.Acquire(within(t, time.Second), request("o", "a", 2*time.Second))), driver.ErrInvalidOption)
	for _, owner := range []string{"", "a:b", "a b"} {
		wantIs(t, "owner "+owner, ask(t, s, owner, "a"), driver.ErrInvalidOwner)
	}
}

// TestSameServer: two addresses of one server are no two nodes. The lock would be its alone.
func TestSameServer(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	port := f.servers[0].Addr()[len("127.0.0.1"):]
	again := f.servers[0].Client(func(o *redis.Options) { o.Addr = "localhost" + port })
	s := over(t, []*redis.Client{f.servers[0].Client(), again, f.servers[1].Client()}, redlock.WithQuorum(3))
	wantIs(t, "two nodes that are one server", ask(t, s, "o", "key"), redlock.ErrSameServer)
	finds(t, s, "nodes", "server of localhost"+port)
}

// TestImpaired: operators learn which node is missing, and that it is back.
func TestImpaired(t *testing.T) {
	servertest.Long(t)
	f := started(t)
	s := f.open(t)
	told := make(chan error, 100)
	s.Describe().OnImpaired(func(reason error) { told <- reason })
	lock(t, s, "o", "a", time.Minute)
	f.servers[2].Kill()
	next := func(bad bool) {
		t.Helper()
		deadline := time.After(15 * time.Second)
		for i := 0; ; i++ {
			select {
			case err := <-told:
				var of *redlock.NodeError
				require(t, (err != nil) == bad && (!bad || errors.As(err, &of) && of.Node == 2), "told %v, want one of node 2: %v", err, bad)
				return
			case <-deadline:
				t.Fatalf("nobody is told that a node is down: %v", bad)
			case <-time.After(20 * time.Millisecond):
				_, _ = s.Inspect(within(t, 5*time.Second), "a")
			}
		}
	}
	next(true)
	f.servers[2].Restart(t)
	next(false)
}

// TestUndoneWhereNothingWasHeard: RedissonRedLock releases only what it knows that it has (redisson/redisson#1606). A
// node that gave its vote, and whose answer was lost, would keep others out for the TTL.
func TestUndoneWhereNothingWasHeard(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s, proxies := f.openProxied(t)
	lock(t, s, "warm", "warm", time.Minute)
	for _, p := range proxies[:3] {
		p.CutReplies()
	}
	wantIs(t, "Acquire without a quorum of answers", ask(t, s, "o", "key"), driver.ErrUnavailable)
	for _, p := range proxies {
		p.Heal()
	}
	f.settled(t, "key", 0)
}

// TestNodesWithoutMark: most nodes were emptied. Init must not have them vote beside one that has been in use. The store
// stays impaired when they refuse a key: that does not say that they vote again.
func TestNodesWithoutMark(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s := f.open(t)
	const mark = "{lock:}:born"
	for _, server := range f.servers[1:] {
		must(t, server.Client().Del(bg, mark).Err())
		must(t, server.Client().Set(bg, "lock:held", "somebody", time.Minute).Err())
	}
	wantIs(t, "Init", s.Init(within(t, 10*time.Second)), redlock.ErrNotNew)
	for i, server := range f.servers {
		require(t, (server.Client().Exists(bg, mark).Val() == 1) == (i == 0), "node %d has a mark, or lost it", i)
	}
	told := make(chan error, 100)
	s.Describe().OnImpaired(func(reason error) { told <- reason })
	require(t, errors.Is(ask(t, s, "o", "free"), redlock.ErrAbstaining), "nodes without a mark vote")
	wantIs(t, "told", <-told, redlock.ErrAbstaining)
	wantIs(t, "a key that is held", ask(t, s, "o", "held"), driver.ErrHeld)
	must(t, checktest.ErrorOf(s.Inspect(within(t, 10*time.Second), "held"))) // all nodes have answered by then
	check(t, len(told) == 0, "the nodes are said to vote again")
}

// TestLostAnswersOfARelease: the second one finds no lease, but it was there.
func TestLostAnswersOfARelease(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s, proxies := f.openProxied(t)
	release(t, s, lock(t, s, "warm", "key", time.Minute)) // the nodes know the scripts
	g := lock(t, s, "o", "key", time.Minute)
	f.settled(t, "key", nodes)
	for _, p := range proxies[:3] {
		p.CutReplies()
	}
	answer := checktest.Async(func() error { return s.Release(within(t, 10*time.Second), g) })
	f.settled(t, "key", 0)
	for _, p := range proxies {
		p.Heal()
	}
	err := <-answer // nil if the network was back before the answers
	check(t, err == nil || errors.Is(err, driver.ErrOutcomeUnknown), "Release: %v", err)
}

// TestRenewalGivesNoVote: redsync's WithSetNXOnExtend sets the key again on nodes that have lost it.
// A renewal that comes late would then give a lease that has ended to its old owner.
func TestRenewalGivesNoVote(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	s := f.open(t)
	g := lock(t, s, "o", "key", time.Minute)
	f.settled(t, "key", nodes)
	f.forget(t, "key", 0, 1, 4)
	wantIs(t, "Renew of a lease that three of five nodes have", renew(t, s, g), nil)
	check(t, f.votes(t, "key") == 3, "after a renewal, %d nodes have the lease, want 3", f.votes(t, "key"))
	f.forget(t, "key", 0, 0)
	wantIs(t, "Renew of a lease that two of five nodes have", renew(t, s, g), driver.ErrLeaseLost)
	check(t, f.votes(t, "key") == 2, "after a renewal, %d nodes have the lease, want 2", f.votes(t, "key"))
}
