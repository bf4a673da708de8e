package httprule

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// What is flushed, is a stream of events or is too large to be kept back is sent
// while the lock is held. So its client can hold the lock by not reading. Here is
// what bounds that.

// stallAfter is how long a client may take for pieceSize bytes of what is sent
// while the lock is held, unless the server or the handler say how long: its
// connection is broken off then. That is 1 KiB per second. Tests have less time.
var stallAfter = 30 * time.Second

// stallBound is the write deadline of each piece.
type stallBound struct {
	after  time.Duration // 0: not known yet; less than 0: somebody else sets deadlines
	writer *http.ResponseController
}

// forward sends p.
func (h *heldResponse) forward(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), pieceSize)
		if h.released {
			n = len(p) // the client takes its own time
		}
		err := h.bounded(func() error {
			_, err := h.ResponseWriter.Write(p[:n])
			return err
		})
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// bounded does a piece of sending. The deadline is taken away after it: HTTP/2
// resets a stream when its deadline passes, though nobody is writing.
func (h *heldResponse) bounded(send func() error) error {
	if h.released || h.stall() < 0 {
		return send()
	}
	if h.bound.writer.SetWriteDeadline(time.Now().Add(h.bound.after)) != nil {
		h.bound.after = -1 // not possible here
		return send()
	}
	err := send()
	if h.bound.after > 0 && !h.hijacked {
		_ = h.bound.writer.SetWriteDeadline(time.Time{})
	}
	return err
}

// stall is how long a piece may take.
func (h *heldResponse) stall() time.Duration {
	if h.bound.after == 0 {
		h.bound = stallBound{after: stallAfter, writer: http.NewResponseController(h.ResponseWriter)}
		if srv := serverOf(h.x.Request()); srv == nil || srv.WriteTimeout > 0 {
			h.bound.after = -1
		}
	}
	return h.bound.after
}

// SetWriteDeadline is what http.ResponseController calls. The handler knows its
// clients, so its word is the last one.
func (h *heldResponse) SetWriteDeadline(t time.Time) error {
	h.bound.after = -1
	return http.NewResponseController(h.ResponseWriter).SetWriteDeadline(t)
}

// FlushError is what http.ResponseController calls to flush.
func (h *heldResponse) FlushError() error {
	h.begin(http.StatusOK)
	if err := h.send(); err != nil {
		return err
	}
	return h.bounded(http.NewResponseController(h.ResponseWriter).Flush)
}

// Flush implements http.Flusher.
func (h *heldResponse) Flush() { _ = h.FlushError() }

// Hijack implements http.Hijacker.
func (h *heldResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if h.status != 0 {
		if err := h.send(); err != nil {
			return nil, nil, err
		}
	}
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		h.sent, h.hijacked = true, true
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController set read deadlines and the like.
func (h *heldResponse) Unwrap() http.ResponseWriter { return h.ResponseWriter }
