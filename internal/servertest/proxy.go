package servertest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP connection that can fail. Clients connect to Addr instead of the server.
// Without a fault, the proxy passes on what both sides send.
//
// Its methods may be called at any time, from any goroutine.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	fault fault
	shuns string        // the address of a client that is black holed whatever the fault is; "": none
	far   time.Duration // how late all bytes arrive
	late  time.Duration // how late the next bytes of a client arrive
	links map[*link]struct{}

	frames *frames // nil: they are not recorded
}

// fault is a fault of the network.
type fault int

const (
	healthy     fault = iota
	cut               // connections are closed
	lostReplies       // what the server sends is lost
	blackholed        // what either side sends is lost
)

// link is a client's connection and the matching connection to the server.
type link struct {
	client, server net.Conn
	from           string // the client's address, without its port
	tainted        bool   // bytes of it were lost; guarded by Proxy.mu
}

// NewProxy starts a proxy to the host:port target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("servertest: proxy: %v", err)
	}
	p := &Proxy{target: target, listener: l, links: make(map[*link]struct{})}
	t.Cleanup(p.stop)
	p.running.Go(p.accept)
	return p
}

// Addr returns the host:port that clients should use.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes every connection, and new ones at once, until Heal: like a server that went away
// and says so.
func (p *Proxy) Cut() { p.set(cut, func(*link) bool { return true }) }

// CutReplies loses everything that the server sends, until Heal: commands are executed, but the
// client cannot know. Connections stay open.
func (p *Proxy) CutReplies() { p.set(lostReplies, func(*link) bool { return false }) }

// Blackhole loses everything that both sides send, until Heal: a half-open connection, as after
// a cable was pulled.
func (p *Proxy) Blackhole() { p.set(blackholed, func(*link) bool { return false }) }

// Shun is Blackhole for clients that connect from the address ip, and for nobody else: part of a network
// is cut off. Addresses of 127.0.0.0/8 other than 127.0.0.1 work without further ado on Linux only.
func (p *Proxy) Shun(ip string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shuns = ip
}

// Heal ends the effect of Cut, CutReplies, Blackhole or Shun. Connections that have lost bytes are
// closed, because TCP never delivers what comes after a gap. The others go on.
func (p *Proxy) Heal() { p.set(healthy, func(l *link) bool { return l.tainted }) }

// Delay makes the bytes that each side sends arrive d later, as on the way to a server far away.
// 0 ends that.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.far = d
}

// DelayNext makes the next bytes that a client sends arrive d later, also if the client has
// closed its connection by then. TCP does the same: it sends again what the network has lost.
func (p *Proxy) DelayNext(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = d
}

// set changes the fault and closes the links for which drop is true. Bytes that were read
// before may still be passed on. Bytes sent after set has returned are not.
func (p *Proxy) set(f fault, drop func(*link) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == healthy {
		p.shuns = ""
	}
	for l := range p.links {
		if drop(l) {
			p.close(l)
		}
	}
}

// close ends both connections of a link, which ends its two copiers.
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
			continue // this client gave up meanwhile
		}
		// A client that is cut off keeps dialing, and PostgreSQL starts a process for each connection.
		var server net.Conn
		if !p.isCut() {
			server, err = net.Dial("tcp", p.target)
		}
		if server == nil || err != nil {
			_ = client.Close() // to the client it looks as if the server were down
			continue
		}
		from, _, _ := net.SplitHostPort(client.RemoteAddr().String())
		p.serve(&link{client: client, server: server, from: from})
	}
}

func (p *Proxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault == cut
}

func (p *Proxy) serve(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	if p.fault == cut {
		p.close(l)
		return
	}
	p.running.Go(func() { p.copy(l, l.server, l.client, blackholed, p.frames) })
	p.running.Go(func() { p.copy(l, l.client, l.server, lostReplies, nil) })
}

// copy passes on what src sends, or loses it while the fault is at least lossy. It records what
// it passes on.
func (p *Proxy) copy(l *link, dst, src net.Conn, lossy fault, record *frames) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && p.passes(l, lossy) {
			time.Sleep(p.delayOf(src == l.client))
			record.add(buf[:n])
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

// passes reports whether bytes get through now, and remembers it if they do not.
func (p *Proxy) passes(l *link, lossy fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.fault >= lossy || l.from == p.shuns
	l.tainted = l.tainted || lost
	return !lost
}

// delayOf returns how late bytes arrive that were just read.
func (p *Proxy) delayOf(client bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.far
	if client {
		d, p.late = max(d, p.late), 0
	}
	return d
}
