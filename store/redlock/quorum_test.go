package redlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redlock"
)

// TestQuorumsMeet: one node lets a lease end too soon, as when its clock jumps. Quorums of three of
// five meet in a single node, so that node may give the key to a second owner. Quorums of four meet
// in three.
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
			deadline := time.Now().Add(200 * time.Millisecond)
			for c := f.servers[i].Client(); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
				if err := c.Del(within(t, 5*time.Second), "lock:key").Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err := b.Acquire(within(t, 5*time.Second), request("second", "key", time.Minute))
		if overlap := err == nil; overlap != tc.overlap {
			t.Errorf("with a quorum of %d of %d, a second owner got the key: %v (%v), want %v", tc.quorum, nodes, overlap, err, tc.overlap)
		}
	}
}

func TestOptions(t *testing.T) {
	var five []*redis.Client
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"} {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		five = append(five, c)
	}
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
		switch {
		case tc.bad == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.bad != "" && (!errors.As(err, &bad) || bad.Option != tc.bad):
			t.Errorf("%s: %v, want an error of %s", tc.name, err, tc.bad)
		case s != nil:
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
	// All that is wrong is told at once.
	_, err := redlock.New(nil, redlock.WithNodeTimeout(0), redlock.WithMaxTTL(0))
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n != 3 {
		t.Errorf("%d errors of 3: %v", n, err)
	}
}

// TestBeyond: what the store can't do is refused before any I/O.
func TestBeyond(t *testing.T) {
	var clients []*redis.Client
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	s, err := redlock.New(clients, redlock.WithMaxTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, claims := range [][]driver.Claim{
		{driver.Shared("a")}, {driver.Permit("a", 2)}, {driver.Exclusive("a"), driver.Exclusive("b")},
	} {
		_, err := s.Acquire(within(t, time.Second), driver.Request{Owner: "o", Claims: claims, TTL: time.Second})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", claims, err)
		}
	}
	if _, err := s.Acquire(within(t, time.Second), request("o", "a", 2*time.Second)); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("a TTL above the longest: %v", err)
	}
	for _, owner := range []string{"", "a:b", "a b"} {
		if _, err := s.Acquire(within(t, time.Second), request(owner, "a", time.Second)); !errors.Is(err, driver.ErrInvalidOwner) {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
}

// TestSameServer: two addresses of one server are no two nodes. The lock would be its alone.
func TestSameServer(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	port := f.servers[0].Addr()[len("127.0.0.1"):]
	again := f.servers[0].Client(func(o *redis.Options) { o.Addr = "localhost" + port })
	s, err := redlock.New([]*redis.Client{f.servers[0].Client(), again, f.servers[1].Client()}, patient, redlock.WithQuorum(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Acquire(within(t, 5*time.Second), request("o", "key", time.Minute)); !errors.Is(err, redlock.ErrSameServer) {
		t.Errorf("Acquire over two nodes that are one server: %v", err)
	}
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
				if (err != nil) != bad || bad && (!errors.As(err, &of) || of.Node != 2) {
					t.Fatalf("told %v, want one of node 2: %v", err, bad)
				}
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
