package zktest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Operations of ZooKeeper's protocol, for [Relay].
const (
	OpExists = 3
	OpRead   = 4
	OpList   = 12
	OpMulti  = 14
)

// Relay passes on what a client and the server send, frame by frame. It can hold one request back, or lose all that
// the server sends on a connection from one request on.
type Relay struct {
	Addr, target string
	running      sync.WaitGroup

	mu    sync.Mutex
	trap  *trap
	links map[*link]bool
}

// trap is for the next request of a kind.
type trap struct {
	op     int32
	came   chan struct{} // closed when it has come
	onward chan struct{} // closed when it may go on; nil: its answer is lost
}

// link is a client's connection, with that to the server.
type link struct {
	client, server net.Conn
	deaf           bool // answers are lost
}

// NewRelay starts one, which ends with the test.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), target: target, links: make(map[*link]bool)}
	r.running.Go(func() { r.accept(l) })
	t.Cleanup(func() {
		_ = l.Close()
		r.Cut(false)
		r.running.Wait()
	})
	return r
}

// LoseAnswerTo loses the answer to the next request of that kind. The channel is closed when the request has come.
func (r *Relay) LoseAnswerTo(op int32) <-chan struct{} { return r.set(&trap{op: op}) }

// HoldBack keeps the next request of that kind back, until the function is called. The channel is closed
// when the request has come.
func (r *Relay) HoldBack(op int32) (held <-chan struct{}, goOn func()) {
	onward := make(chan struct{})
	return r.set(&trap{op: op, onward: onward}), func() { close(onward) }
}

func (r *Relay) set(t *trap) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.came, r.trap = make(chan struct{}), t
	return t.came
}

// Cut closes the connections; only those that have lost an answer, or all.
func (r *Relay) Cut(onlyDeaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		if l.deaf || !onlyDeaf {
			_ = l.client.Close()
			_ = l.server.Close()
		}
	}
}

func (r *Relay) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		r.mu.Lock()
		r.links[l] = true
		r.mu.Unlock()
		r.running.Go(func() {
			defer server.Close()
			opened := false // the first frame opens the session
			for r.pass(server, client, func(frame []byte) bool {
				if opened {
					r.notice(l, frame)
				}
				opened = true
				return true
			}) {
			}
		})
		r.running.Go(func() {
			defer client.Close()
			for r.pass(client, server, func([]byte) bool { return !r.isDeaf(l) }) {
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.links, l)
		})
	}
}

// pass passes on one frame, if it is wanted, and reports whether the connections are there still.
func (r *Relay) pass(to, from net.Conn, wanted func(frame []byte) bool) bool {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(from, frame); err != nil {
		return false
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	if _, err := io.ReadFull(from, frame[4:]); err != nil {
		return false
	}
	if !wanted(frame) {
		return true
	}
	_, err := to.Write(frame)
	return err == nil
}

// notice does what was asked for about such a request.
func (r *Relay) notice(l *link, frame []byte) {
	r.mu.Lock()
	t := r.trap
	if t == nil || len(frame) < 12 || int32(binary.BigEndian.Uint32(frame[8:])) != t.op {
		r.mu.Unlock()
		return
	}
	r.trap, l.deaf = nil, t.onward == nil
	r.mu.Unlock()
	close(t.came)
	if t.onward != nil {
		<-t.onward
	}
}

func (r *Relay) isDeaf(l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return l.deaf
}
