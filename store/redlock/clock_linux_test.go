package redlock_test

import (
	"errors"
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
	servertest.Long(t)
	t.Parallel()
	server, machine := redistest.StartOnMachine(t)
	clients := []*redis.Client{redistest.Start(t).Client(), redistest.Start(t).Client(), server.Client()}
	s, err := redlock.New(clients)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	finds(t, s, "nodes")
	machine.Jump(-time.Hour)
	finds(t, s, "nodes", "clock of "+server.Addr())
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
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		if g.Token <= last {
			t.Errorf("token %d after %d", g.Token, last)
		}
		if most := uint64(time.Now().Add(time.Minute).UnixMicro()); g.Token > most {
			t.Errorf("token %d follows the wrong clock, and the others are at %d at most", g.Token, most)
		}
		last = g.Token
		if err := s.Release(ctx, g); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	use(a, 0)
	g := lock(t, a, "holder", "held", time.Minute)
	f.settled(t, "held", nodes)
	for i, jump := range []time.Duration{time.Hour, -2 * time.Hour} {
		machines[2].Jump(jump)
		if _, err := b.Acquire(ctx, request(fmt.Sprint("other", i), "held", time.Minute)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("a clock jumped by %v, and a second owner asked for the key: %v", jump, err)
		}
		if err := a.Renew(ctx, []driver.Grant{g})[0]; err != nil {
			t.Errorf("Renew after a clock jumped by %v: %v", jump, err)
		}
		for n := range 5 {
			use(a, 100*i+2*n+10)
			use(b, 100*i+2*n+11)
		}
	}
	// A store that knows no clock yet learns the wrong one together with the others.
	use(f.open(t, opts...), 1000)
}
