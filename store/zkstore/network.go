package zkstore

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/internal/waitloop"
)

// network is how a client reaches the servers: which one is next, and when. The client's own way
// resolves names once in the life of a process, pauses for a second before it goes back to the only
// server, and waits for minutes for the first answer of a silent one.
type network struct {
	l     *link
	life  context.Context // of its connections, and of the attempts to get one
	close context.CancelFunc

	watched atomic.Bool // the client has asked for a watch

	mu      sync.Mutex
	servers []string
	turn    int
	tries   int // since the last session
	err     error
	warned  bool
	timeout time.Duration // of the session, as the servers allow it; 0: not known
}

func newNetwork(l *link) *network {
	n := &network{l: l}
	n.life, n.close = context.WithCancel(context.Background())
	return n
}

// Init implements zk.HostProvider. The client has put the servers in a random order.
func (n *network) Init(servers []string) error {
	n.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (n *network) Len() int { return len(n.servers) }

// Next implements zk.HostProvider. The second value makes the client look whether it was closed, drop
// the requests that were not sent, and pause for a second.
func (n *network) Next() (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn = (n.turn + 1) % len(n.servers)
	n.tries++
	return n.servers[n.turn], n.life.Err() != nil || n.round() > ownPauses && (n.tries-1)%len(n.servers) == 0
}

// round is how many times all servers were tried since the last session.
func (n *network) round() int { return (n.tries - 1) / len(n.servers) }

// Connected implements zk.HostProvider.
func (n *network) Connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tries, n.err = 0, nil
}

const (
	firstPause = 10 * time.Millisecond
	ownPauses  = 6 // each twice as long as the one before
)

// dial implements zk.Dialer. It pauses after each round of all servers.
func (n *network) dial(_, address string, timeout time.Duration) (net.Conn, error) {
	n.mu.Lock()
	round := n.round()
	n.mu.Unlock()
	if round > 0 && round <= ownPauses {
		pause := firstPause << (round - 1)
		if !waitloop.Sleep(n.life, pause/2+rand.N(pause)) {
			return nil, n.life.Err()
		}
	}
	ctx, cancel := context.WithTimeout(n.life, timeout)
	defer cancel()
	conn, err := n.l.cfg.connect(ctx, address)
	if err != nil {
		n.failed(err)
		return nil, err
	}
	return &wire{Conn: conn, n: n, detach: context.AfterFunc(n.life, func() { _ = conn.Close() })}, nil
}

// connect makes a connection to a server.
func (c *config) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, "tcp", address)
	if err != nil || c.tls == nil {
		return conn, err
	}
	config := c.tls
	if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

func (n *network) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// trouble is why there is no session.
func (n *network) trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// wire is a connection to a server.
type wire struct {
	net.Conn
	n      *network
	detach func() bool // from the network's life
	head   []byte      // the beginning of what the server has sent
	knows  bool        // the session's timeout
	out    sender
}

// Close implements [net.Conn].
func (w *wire) Close() error {
	w.detach()
	return w.Conn.Close()
}

var errOtherServer = errors.New("what answers is no ZooKeeper server")

// SetReadDeadline implements [net.Conn]. The client allows a server several times the session's
// timeout for its first answer. A third leaves time to keep the session at another one.
func (w *wire) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(w.n.l.cfg.session / 3); !w.knows && t.After(most) {
		t = most
	}
	return w.Conn.SetReadDeadline(t)
}

// Read implements [net.Conn]. The first answer begins with its length, for which the client makes room whatever it
// is: the first bytes of another kind of server are one of some gigabytes. It has the timeout that the servers allow,
// for which the client has no method.
func (w *wire) Read(b []byte) (int, error) {
	const lengthBytes, longest, timeoutAt, headBytes = 4, 1 << 10, 8, 12
	count, err := w.Conn.Read(b)
	if w.knows {
		return count, err
	}
	if err != nil && count == 0 && len(w.head) == 0 {
		w.n.failed(errors.Join(errors.New("a server closed the connection before it opened a session"), err))
	}
	w.head = append(w.head, b[:count]...)
	if len(w.head) >= lengthBytes && binary.BigEndian.Uint32(w.head) > longest {
		w.n.failed(errOtherServer)
		return 0, errOtherServer
	}
	if len(w.head) >= headBytes {
		w.knows = true
		w.n.allowed(time.Duration(binary.BigEndian.Uint32(w.head[timeoutAt:headBytes])) * time.Millisecond)
		w.head = nil
	}
	return count, err
}

// sessionTimeout is what the servers allow; 0: not known.
func (n *network) sessionTimeout() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.timeout
}

// allowed warns if the servers allow less than was asked for. 0: the session has expired.
func (n *network) allowed(timeout time.Duration) {
	n.mu.Lock()
	n.timeout = timeout
	warn := !n.warned && timeout > 0 && timeout < n.l.cfg.session
	n.warned = n.warned || warn
	n.mu.Unlock()
	if warn {
		n.l.cfg.log.Warn("zkstore: the servers allow a shorter session than WithSession asks for: waiters lose their place sooner when the network fails",
			"asked", n.l.cfg.session, "allowed", timeout)
	}
}
