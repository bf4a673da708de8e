package redlock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
)

// After a short outage, all the idle connections of a client may be broken, and the client does not
// see it before it uses them. A renewal tried two of them, and reported an outage that was over.
func TestRenewalAfterEveryIdleConnectionBroke(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	var broken atomic.Int64 // connections up to this generation are
	clients := f.clients(func(_ int, o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &mortal{Conn: conn, born: broken.Load() + 1, broken: &broken}, err
		}
	})
	s := over(t, clients)
	g := lock(t, s, "owner", "key", time.Minute)
	for _, c := range clients {
		leaveIdle(t, c, 6)
	}

	broken.Add(1)
	wantIs(t, "Renew while every server answers", renew(t, s, g), nil)
}

// leaveIdle has the pool of c keep n idle connections.
func leaveIdle(t *testing.T, c *redis.Client, n int) {
	t.Helper()
	var conns []*redis.Conn
	for range n {
		conn := c.Conn()
		must(t, conn.Ping(within(t, 5*time.Second)).Err())
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// mortal is a connection that breaks without a sign that a client could see before it uses it.
type mortal struct {
	net.Conn
	born   int64
	broken *atomic.Int64
}

func (c *mortal) Read(p []byte) (int, error) {
	if c.born <= c.broken.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

// A key with something else on all nodes was an outage to those who wanted it, and free to those who looked.
func TestForeignType(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	for _, server := range f.servers {
		must(t, server.Client().LPush(bg, "lock:k1", "x").Err())
	}
	s := f.open(t)
	storetest.IsForeign(t, ask(t, s, "o", "k1"))
	storetest.IsForeign(t, checktest.ErrorOf(s.Inspect(t.Context(), "k1")))
	storetest.IsForeign(t, checktest.ErrorOf(s.ForceRelease(t.Context(), "k1", "why")))
	lock(t, s, "o", "k2", time.Minute)
	page, _, err := s.List(t.Context(), driver.Listing{})
	check(t, err == nil && len(page) == 1 && page[0].Key == "k2", "the list is %+v, %v", page, err)
}

// A foreign value of a megabyte went as a whole into each conflict, each list and each log.
func TestALongForeignValueIsShortened(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<19)
	for _, value := range []string{long, "h/1/1/abc/id:1763683200000001:0:1763683200000:30000:" + long + "|:7"} {
		f := sharing(t)
		for _, server := range f.servers {
			must(t, server.Client().Set(bg, "lock:k", value, time.Minute).Err())
		}
		drivertest.Shortened(t, f.open(t), "k")
	}
}

// TestAwayAtStart: most of the nodes are away when a program starts.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	checktest.Each(t, map[string]func(*servertest.Proxy){
		"refused": (*servertest.Proxy).Cut, "silent": (*servertest.Proxy).Blackhole,
	}, func(t *testing.T, away func(*servertest.Proxy)) {
		s, networks := sharing(t).openProxied(t)
		storetest.Every(networks[1:], away)(t)
		heal := storetest.Every(networks, (*servertest.Proxy).Heal)
		drivertest.AwayAtStart(t, func() (driver.Store, error) { return s, nil }, func() { heal(t) })
	})
}

// TestHooksSeeEveryRequest: see the test of the same name in redisstore.
func TestHooksSeeEveryRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	var seen atomic.Int64
	clients := f.clients(func(int, *redis.Options) {})
	for _, c := range clients {
		c.AddHook(redistest.OnCommand(func(cmd redis.Cmder) {
			if name := cmd.Name(); name == "eval" || name == "evalsha" {
				seen.Add(1)
			}
		}))
	}
	s := over(t, clients)
	must(t, s.Init(within(t, 5*time.Second)))
	for i := range 20 {
		release(t, s, lock(t, s, fmt.Sprint("owner", i), fmt.Sprint("k", i), time.Minute))
	}
	must(t, s.Close()) // so that nothing is under way when the requests are counted
	var ran int64
	for _, server := range f.servers {
		commands := server.Commands(t)
		ran += commands["evalsha"] + commands["eval"]
	}
	check(t, seen.Load() == ran && ran != 0, "the hooks saw %d of %d scripts", seen.Load(), ran)
}

// TestAForeignSideKey: a renewal that found a key of another type in place of the forced releases failed for all leases.
func TestAForeignSideKey(t *testing.T) {
	f := sharing(t)
	s := f.open(t)
	gone, kept := lock(t, s, "o1", "gone", time.Minute), lock(t, s, "o2", "kept", time.Minute)
	for _, server := range f.servers {
		must(t, server.Client().Set(t.Context(), "{lock:gone}:f", "x", time.Minute).Err())
		must(t, server.Client().Del(t.Context(), "lock:gone").Err())
	}
	errs := s.Renew(within(t, 10*time.Second), []driver.Grant{gone, kept})
	wantIs(t, "the one that is gone", errs[0], driver.ErrLeaseLost)
	must(t, errs[1])
}
