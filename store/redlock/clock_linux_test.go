package redlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redlock"
)

// A node whose clock is set wrong is found.
func TestExamineClock(t *testing.T) {
	servertest.LongParallel(t)
	server, machine := redistest.StartOnMachine(t)
	clients := []*redis.Client{redistest.Start(t).Client(), redistest.Start(t).Client(), server.Client()}
	s := over(t, clients)
	must(t, s.Init(t.Context()))
	finds(t, s, "nodes")
	machine.Jump(-time.Hour) // so the node gives no vote for a while
	finds(t, s, "nodes", "node of "+server.Addr(), "clock of "+server.Addr())
}

// TestClockJumps: the clock of one node is set an hour ahead, and then two hours back. Quorums of
// four of five stand that, and the tokens stay with the other nodes' clocks.
func TestClockJumps(t *testing.T) {
	servertest.Long(t)
	f := &fleet{}
	var machines []*redistest.Machine
	for range nodes {
		server, machine := redistest.StartOnMachine(t)
		f.servers, machines = append(f.servers, server), append(machines, machine)
	}
	opts := []redlock.Option{redlock.WithQuorum(4)}
	f.init(t, opts...)
	a, b := f.open(t, opts...), f.open(t, opts...)
	ctx := within(t, 60*time.Second)
	var last uint64
	use := func(s *redlock.Store, i int) {
		t.Helper()
		req := request(fmt.Sprint("o", i), "tokens", time.Minute)
		req.Wait = true // on a busy machine the last release may not have reached all nodes
		g, err := s.Acquire(ctx, req)
		must(t, err)
		check(t, g.Token > last, "token %d after %d", g.Token, last)
		most := uint64(time.Now().Add(time.Minute).UnixMicro())
		check(t, g.Token <= most, "token %d follows the wrong clock, and the others are at %d at most", g.Token, most)
		last = g.Token
		release(t, s, g)
	}
	use(a, 0)
	g := lock(t, a, "holder", "held", time.Minute)
	f.settled(t, "held", nodes)
	for i, jump := range []time.Duration{time.Hour, -2 * time.Hour} {
		machines[2].Jump(jump)
		wantIs(t, fmt.Sprint("a second owner after a jump of ", jump), ask(t, b, fmt.Sprint("other", i), "held"), driver.ErrHeld)
		wantIs(t, fmt.Sprint("Renew after a jump of ", jump), renew(t, a, g), nil)
		for n := range 5 {
			use(a, 100*i+2*n+10)
			use(b, 100*i+2*n+11)
		}
	}
	// A store that knows no clock yet learns the wrong one together with the others.
	use(f.open(t, opts...), 1000)
}
