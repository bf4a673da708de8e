package redlock_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock"
)

// After a short outage, all the idle connections of a client may be broken, and the client does not
// see it before it uses them. A renewal tried two of them, and reported an outage that was over.
func TestRenewalAfterEveryIdleConnectionBroke(t *testing.T) {
	t.Parallel()
	f := sharing(t)
	var clients []*redis.Client
	var broken atomic.Int64 // connections up to this generation are
	for _, server := range f.servers {
		clients = append(clients, server.Client(func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &mortal{Conn: conn, born: broken.Load() + 1, broken: &broken}, err
			}
		}))
	}
	s, err := redlock.New(clients, patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := lock(t, s, "owner", "key", time.Minute)
	for _, c := range clients {
		leaveIdle(t, c, 6)
	}

	broken.Add(1)
	if err := s.Renew(within(t, 5*time.Second), []driver.Grant{g})[0]; err != nil {
		t.Errorf("Renew while every server answers: %v", err)
	}
}

// leaveIdle has the pool of c keep n idle connections.
func leaveIdle(t *testing.T, c *redis.Client, n int) {
	t.Helper()
	var conns []*redis.Conn
	for range n {
		conn := c.Conn()
		if err := conn.Ping(within(t, 5*time.Second)).Err(); err != nil {
			t.Fatal(err)
		}
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
