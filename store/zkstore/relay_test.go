package zkstore_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Operations of ZooKeeper's protocol.
const (
	opRead  = 4
	opList  = 12
	opMulti = 14
)

// relay passes on what a client and the server send, and can lose the answer to one kind of request:
// from such a request on, all that the server sends on that connection.
type relay struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	lose   int32              // the next request of this kind; 0: none
	lost   chan struct{}      // closed when it has come
	hold   int32              // the next request of this kind; 0: none
	held   chan struct{}      // closed when it has come
	onward chan struct{}      // closed when it may go on
	links  map[net.Conn]*bool // client's connections: are answers lost?
	peers  map[net.Conn]net.Conn
}

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{target: target, listener: l, links: make(map[net.Conn]*bool), peers: make(map[net.Conn]net.Conn)}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.cut(false)
		r.running.Wait()
	})
	return r
}

// loseAnswerTo loses the answer to the next request of that kind. The channel is closed when the
// request has come.
func (r *relay) loseAnswerTo(op int32) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose, r.lost = op, make(chan struct{})
	return r.lost
}

// holdBack keeps the next request of that kind back, until the function is called. The channel is closed
// when the request has come.
func (r *relay) holdBack(op int32) (held <-chan struct{}, goOn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	onward := make(chan struct{})
	r.hold, r.held, r.onward = op, make(chan struct{}), onward
	return r.held, func() { close(onward) }
}

// cut closes the connections; only those that have lost an answer, or all.
func (r *relay) cut(onlyDeaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client, deaf := range r.links {
		if *deaf || !onlyDeaf {
			_ = client.Close()
			_ = r.peers[client].Close()
		}
	}
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		deaf := new(bool)
		r.mu.Lock()
		r.links[client], r.peers[client] = deaf, server
		r.mu.Unlock()
		r.running.Go(func() { r.requests(client, server, deaf) })
		r.running.Go(func() { r.answers(client, server, deaf) })
	}
}

// requests passes on what a client sends, frame by frame.
func (r *relay) requests(client, server net.Conn, deaf *bool) {
	defer server.Close()
	for first := true; ; first = false {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(client, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(client, frame[4:]); err != nil {
			return
		}
		if !first && len(frame) >= 12 { // the first one opens the session
			r.notice(int32(binary.BigEndian.Uint32(frame[8:])), deaf)
		}
		if _, err := server.Write(frame); err != nil {
			return
		}
	}
}

// notice does what was asked for about requests of that kind.
func (r *relay) notice(op int32, deaf *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op == r.lose && op != 0 {
		*deaf, r.lose = true, 0
		close(r.lost)
	}
	if op == r.hold && op != 0 {
		r.hold = 0
		close(r.held)
		onward := r.onward
		r.mu.Unlock()
		<-onward
		r.mu.Lock()
	}
}

// answers passes on what the server sends.
func (r *relay) answers(client, server net.Conn, deaf *bool) {
	defer func() {
		_ = client.Close()
		r.mu.Lock()
		delete(r.links, client)
		delete(r.peers, client)
		r.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		lost := *deaf
		r.mu.Unlock()
		if lost {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
