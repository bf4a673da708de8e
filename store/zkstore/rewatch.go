package zkstore

import (
	"encoding/binary"
	"sync"
	"time"
)

// Opcodes of requests, which the client does not export.
const (
	opGetData    = 4
	opPing       = 11
	opSetAuth    = 100
	opSetWatches = 101
)

// rewatchTime is how long requests wait for the client to ask for its watches. It does that at once if
// it has any.
const rewatchTime = 200 * time.Millisecond

// sender is what the client sends over one connection.
//
// On a new connection of an old session, the client asks for its watches again: it names the last
// transaction that it has seen, and the servers tell of what changed since. But other requests may be
// faster (go-zookeeper/zk#35). Their answers move that transaction, in another goroutine, and changes
// before it are never told. So requests wait here until the watches have been asked for.
type sender struct {
	mu    sync.Mutex
	began bool // the request for a session was sent
	holds bool
	held  []byte // whole requests
}

// Write implements [net.Conn]. The client writes one whole request at a time.
func (w *wire) Write(b []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	if !w.out.began {
		w.out.began = true
		w.out.holds = resumes(b) && w.n.watched.Load()
		return w.Conn.Write(b)
	}
	op := opcode(b)
	if op == opGetData && b[len(b)-1] != 0 { // its last field asks for a watch
		w.n.watched.Store(true)
	}
	switch {
	case !w.out.holds, op == opPing, op == opSetAuth: // they move nothing
		return w.Conn.Write(b)
	case op == opSetWatches:
		n, err := w.Conn.Write(b)
		if err == nil {
			err = w.sendHeld()
		}
		return n, err
	}
	if w.out.held == nil {
		time.AfterFunc(rewatchTime, w.giveUp)
	}
	w.out.held = append(w.out.held, b...)
	return len(b), nil
}

// sendHeld sends the requests that wait. The caller has the mutex.
func (w *wire) sendHeld() error {
	held := w.out.held
	w.out.holds, w.out.held = false, nil
	if held == nil {
		return nil
	}
	_, err := w.Conn.Write(held)
	return err
}

// giveUp lets the requests go: all watches of the client have fired, so it asks for none.
func (w *wire) giveUp() {
	w.out.mu.Lock()
	var err error
	if w.out.holds {
		_ = w.SetWriteDeadline(time.Now().Add(w.n.l.cfg.session)) // the client sets another one for each request
		err = w.sendHeld()
	}
	w.out.mu.Unlock()
	if err != nil {
		_ = w.Close() // the client then knows that they got no answer
	}
}

// resumes reports whether a request for a session names an old one.
func resumes(b []byte) bool {
	const sessionAt, end = 20, 28 // after length, version of the protocol, last transaction and timeout
	return len(b) >= end && binary.BigEndian.Uint64(b[sessionAt:end]) != 0
}

// opcode returns what a request asks for.
func opcode(b []byte) int32 {
	const opAt, end = 8, 12 // after length and number
	if len(b) < end {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[opAt:end]))
}
