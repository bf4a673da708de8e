package natstest

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// breaking makes connections, the next of which to write an entry breaks before it reads the answer.
type breaking struct{ armed atomic.Bool }

func (b *breaking) Dial(network, addr string) (net.Conn, error) {
	c, err := net.Dial(network, addr)
	return &breakingConn{Conn: c, by: b}, err
}

type breakingConn struct {
	net.Conn
	by   *breaking
	over atomic.Bool
}

func (c *breakingConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("HPUB $KV.")) && c.by.armed.CompareAndSwap(true, false) {
		c.over.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *breakingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.over.Load() {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// TestLostAnswers: the server has carried out a write, and the answer is lost. The store asks again two seconds
// later, and does not take what it has done itself for somebody else's work.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	addr := start(t, server.Options{}).Addr().String()
	checktest.Each(t, map[string]func(t *testing.T, s *natsstore.Store, armed *atomic.Bool){
		"a lease": func(t *testing.T, s *natsstore.Store, armed *atomic.Bool) {
			must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), "a", 1, time.Hour))) // the bucket is there
			armed.Store(true)
			take(t, s, request("a", time.Minute))
		},
		"a release": func(t *testing.T, s *natsstore.Store, armed *atomic.Bool) {
			g := take(t, s, request("b", time.Minute))
			armed.Store(true)
			must(t, s.Release(t.Context(), g))
		},
		"a release of a set": func(t *testing.T, s *natsstore.Store, armed *atomic.Bool) {
			g := take(t, s, request("c", time.Minute, driver.Exclusive("d")))
			armed.Store(true)
			must(t, s.Release(t.Context(), g))
		},
		"a forced release, of which nobody knows whose lease it has ended": func(t *testing.T, s *natsstore.Store, armed *atomic.Bool) {
			take(t, s, request("e", time.Minute))
			armed.Store(true)
			_, err := s.ForceRelease(t.Context(), "e", "test")
			checktest.WantIs(t, "error", err, driver.ErrOutcomeUnknown)
		},
	}, func(t *testing.T, do func(*testing.T, *natsstore.Store, *atomic.Bool)) {
		var network breaking
		do(t, open(t, connect(t, addr, nats.SetCustomDialer(&network))), &network.armed)
		checktest.That(t, !network.armed.Load(), "no answer was lost")
	})
}
