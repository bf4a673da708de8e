//go:build unix

package etcdtest

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Network is between the members of a cluster, and can cut one of them off from the others. Clients reach
// all members all the time.
type Network struct {
	servers []*Server
	running sync.WaitGroup

	mu    sync.Mutex
	off   *Server
	id    string // of off, as members tell it each other
	conns map[net.Conn]way
}

// way is what a connection between two members is for. Both directions of what members tell each other go
// over connections of their own, so all those of a member have to be found.
type way struct {
	from string // a member's id; "": it is not known, and nothing that matters goes this way
	to   int
}

// Splittable runs an etcd of several members with a network between them.
func Splittable(t testing.TB, members int, flags ...string) ([]*Server, *Network) {
	t.Helper()
	n := &Network{conns: make(map[net.Conn]way)}
	peers := peersOf(t, members)
	var listeners []net.Listener
	for i, p := range peers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("etcdtest: %v", err)
		}
		listeners = append(listeners, l)
		peers[i].told = "http://" + l.Addr().String()
		n.running.Go(func() { n.accept(l, i, strings.TrimPrefix(p.listens, "http://")) })
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		n.drop(func(way) bool { return true })
		n.running.Wait()
	})
	n.servers = run(t, peers, flags)
	return n.servers, n
}

var serverID = regexp.MustCompile(`etcd_server_id\{server_id="([0-9a-f]+)"\}`)

// CutOff ends all connections between a member and the others, and lets none begin, until Join.
func (n *Network) CutOff(t testing.TB, s *Server) {
	t.Helper()
	r, err := http.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		t.Fatalf("etcdtest: %v", err)
	}
	text, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	id := serverID.FindSubmatch(text)
	if id == nil {
		t.Fatalf("etcdtest: a member without an id")
	}
	n.mu.Lock()
	n.off, n.id = s, string(id[1])
	n.mu.Unlock()
	n.drop(n.isOff)
}

// Join ends the effect of CutOff.
func (n *Network) Join() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off = nil
}

// isOff reports whether a connection leads to the member that is cut off, or from it.
func (n *Network) isOff(w way) bool {
	return n.off != nil && (n.servers[w.to] == n.off || w.from == n.id)
}

func (n *Network) drop(which func(way) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, w := range n.conns {
		if which(w) {
			_ = c.Close()
		}
	}
}

func (n *Network) accept(l net.Listener, to int, target string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		n.running.Go(func() {
			defer c.Close()
			n.pass(c, to, target)
		})
	}
}

// pass passes a connection on. Its first request says whose it is.
func (n *Network) pass(c net.Conn, to int, target string) {
	// Until then, it is one that the end of the test closes.
	if !n.keep(c, way{to: to}) {
		return
	}
	defer n.lose(c)
	head := make([]byte, 0, 4096)
	for !bytes.Contains(head, []byte("\r\n\r\n")) && len(head) < cap(head) {
		got, err := c.Read(head[len(head):cap(head)])
		if head = head[:len(head)+got]; err != nil {
			return
		}
	}
	from := ""
	for line := range bytes.Lines(head) {
		if rest, ok := bytes.CutPrefix(line, []byte("X-Server-From: ")); ok {
			from = string(bytes.TrimSpace(rest))
		}
	}
	if !n.keep(c, way{from, to}) {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	if _, err := server.Write(head); err != nil {
		return
	}
	n.running.Go(func() {
		_, _ = io.Copy(c, server)
		_ = c.Close()
	})
	_, _ = io.Copy(server, c)
}

// keep notes a connection, unless it may not be.
func (n *Network) keep(c net.Conn, w way) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isOff(w) {
		return false
	}
	n.conns[c] = w
	return true
}

func (n *Network) lose(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}
