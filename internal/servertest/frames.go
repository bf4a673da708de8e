package servertest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// frames are the last requests that passed a proxy, to be sent again.
type frames struct {
	keep  int
	which func(write []byte) bool

	mu   sync.Mutex
	kept [][]byte
}

// add keeps one write of a client. A client writes whole requests, so a write that begins like a
// request is one or several of them.
func (f *frames) add(b []byte) {
	if f == nil || b[0] != '*' || !f.which(b) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept) == f.keep {
		f.kept = f.kept[1:]
	}
	f.kept = append(f.kept, bytes.Clone(b))
}

// Record makes the proxy keep the last n writes of clients for which the function is true, for
// Replay. It is for connections that are made afterwards.
func (p *Proxy) Record(n int, which func(write []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frames = &frames{keep: n, which: which}
}

// Replay sends what Record has kept to the server once more, on a connection of its own, as a
// network does that delivers late and twice. It returns how many writes these were. It does not
// wait for the server to carry them out for longer than some 100 ms.
func (p *Proxy) Replay() (int, error) {
	p.mu.Lock()
	f := p.frames
	p.mu.Unlock()
	if f == nil {
		return 0, nil
	}
	f.mu.Lock()
	kept := f.kept
	f.kept = nil
	f.mu.Unlock()
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	// A server that gets no reader for its answers would stop reading.
	_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, conn)
	}()
	for i, b := range kept {
		if _, err := conn.Write(b); err != nil {
			<-done
			return i, err
		}
	}
	<-done
	return len(kept), nil
}
