package redistest

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP connection that can fail. Clients connect to Addr instead of
// the server; what they say is passed on, as long as nothing is broken.
//
// Its methods may be called at any time, from any goroutine.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	fault fault
	links map[*link]struct{}
}

// fault is what is wrong with the network.
type fault int

const (
	healthy     fault = iota
	cut               // nobody gets through
	lostReplies       // what the server says is lost
	blackholed        // what anybody says is lost
)

// link is one client's connection and its counterpart to the server.
type link struct {
	client, server net.Conn
	tainted        bool // bytes of it were lost; guarded by Proxy.mu
}

// NewProxy starts a proxy to the host:port target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{target: target, listener: l, links: make(map[*link]struct{})}
	t.Cleanup(p.stop)
	p.running.Go(p.accept)
	return p
}

// Addr returns the host:port that clients should use.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes every connection, and new ones at once, until Heal: a server that
// went away and says so.
func (p *Proxy) Cut() { p.set(cut, func(*link) bool { return true }) }

// CutReplies loses everything that the server says, until Heal: commands are
// executed, and the client can't know. Connections stay open.
func (p *Proxy) CutReplies() { p.set(lostReplies, func(*link) bool { return false }) }

// Blackhole loses everything that both sides say, until Heal: a half-open
// connection, as after a cable was pulled.
func (p *Proxy) Blackhole() { p.set(blackholed, func(*link) bool { return false }) }

// Heal ends what Cut, CutReplies or Blackhole began. Connections that have lost
// bytes are closed, as TCP never delivers what comes after a gap; the others go on.
func (p *Proxy) Heal() { p.set(healthy, func(l *link) bool { return l.tainted }) }

// set changes the fault and closes the links that drop picks. What was read
// before may still be passed on; what is said after set has returned is not.
func (p *Proxy) set(f fault, drop func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for l := range p.links {
		if drop(l) {
			p.close(l)
		}
	}
}

// close ends both connections of a link; its two copiers end in turn.
func (p *Proxy) close(l *link) {
	delete(p.links, l)
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) stop() {
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // this client gave up in the meantime
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close() // the server is down: so it looks from here
			continue
		}
		p.serve(&link{client: client, server: server})
	}
}

func (p *Proxy) serve(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	if p.fault == cut {
		p.close(l)
		return
	}
	p.running.Go(func() { p.copy(l, l.server, l.client, blackholed) })
	p.running.Go(func() { p.copy(l, l.client, l.server, lostReplies) })
}

// copy passes on what src says, or loses it while the fault is at least lossy.
func (p *Proxy) copy(l *link, dst, src net.Conn, lossy fault) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && p.passes(l, lossy) {
			_, err = dst.Write(buf[:n])
		}
		if err != nil {
			p.mu.Lock()
			p.close(l)
			p.mu.Unlock()
			return
		}
	}
}

// passes reports whether bytes get through now, and remembers if they don't.
func (p *Proxy) passes(l *link, lossy fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.fault >= lossy
	l.tainted = l.tainted || lost
	return !lost
}
