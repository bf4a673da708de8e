package httprule

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// A response that is flushed, is a stream of events, or is too large to be kept back is sent
// while the lock is held. So its client could hold the lock by not reading. This file bounds
// that.

// stallAfter is how long a client may take for pieceSize bytes of a response that is sent while
// the lock is held: 1 KiB per second. Then its connection is broken off. If the server or the
// handler sets write deadlines, those count instead. Tests use a shorter time.
var stallAfter = 30 * time.Second

// stallBound is the write deadline of each piece.
type stallBound struct {
	after  time.Duration // 0: unknown so far; below 0: somebody else sets deadlines
	writer *http.ResponseController
}

// forward sends p.
func (h *heldResponse) forward(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), pieceSize)
		if h.released {
			n = len(p) // after the release, the client may take any time
		}
		err := h.bounded(func() error {
			_, err := h.ResponseWriter.Write(p[:n])
			return err
		})
		if err != nil {
			h.cut = true
			return err
		}
		p = p[n:]
	}
	return nil
}

// bounded sends one piece under a write deadline. The deadline is removed after the piece,
// because HTTP/2 resets a stream when its deadline passes, even if nobody is writing.
func (h *heldResponse) bounded(send func() error) error {
	if h.released || h.stall() < 0 {
		return send()
	}
	if h.bound.writer.SetWriteDeadline(time.Now().Add(h.bound.after)) != nil {
		h.bound.after = -1 // this ResponseWriter has no deadlines
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
		if srv := serverOf(h.x.Request); srv == nil || srv.WriteTimeout > 0 {
			h.bound.after = -1
		}
	}
	return h.bound.after
}

// SetWriteDeadline is what http.ResponseController calls. The handler knows its clients, so its
// deadlines replace ours.
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
