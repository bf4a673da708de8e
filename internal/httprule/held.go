package httprule

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
)

// heldResponse keeps a handler's response back until it is known whether it may
// be sent: a handler that answered 200 may have lost its lease, and nothing
// that was sent can be taken back. It keeps up to limit bytes. What is larger,
// or is flushed, or takes over the connection, is sent as it comes.
type heldResponse struct {
	http.ResponseWriter             // where it is sent
	before              http.Header // what outer middleware had set
	limit               int
	copies              bool // keeps on keeping what is sent, for a record

	status   int       // 0: nothing written
	body     []byte    // what was written, while whole
	room     [128]byte // for that, as far as it goes: most answers of APIs are short
	whole    bool
	sent     bool // what was written is on its way, and what follows goes along
	hijacked bool
	ended    bool
}

// hold begins, once.
func (h *heldResponse) hold(w http.ResponseWriter, limit int, copies bool) {
	h.ResponseWriter, h.limit, h.copies, h.whole = w, limit, copies, true
	h.body = h.room[:0]
	if header := w.Header(); len(header) > 0 {
		h.before = header.Clone()
	}
}

// end undoes what was not sent: what comes then is another response, such as
// that of whoever recovers from a panic. A second call does nothing.
func (h *heldResponse) end() {
	if h.ended {
		return
	}
	h.ended = true
	if h.sent {
		return
	}
	header := h.Header()
	clear(header)
	maps.Copy(header, h.before)
}

// send sends what is kept. A response that was not begun stays for the server
// to give, with the headers that the handler has set.
func (h *heldResponse) send() error {
	if h.sent {
		return nil
	}
	h.sent = true
	if h.status == 0 {
		return nil
	}
	h.ResponseWriter.WriteHeader(h.status)
	if len(h.body) == 0 {
		return nil
	}
	_, err := h.ResponseWriter.Write(h.body)
	return err
}

// WriteHeader implements http.ResponseWriter.
func (h *heldResponse) WriteHeader(code int) {
	switch {
	case code < 100 || code > 999:
		// What net/http does. Later, in send, it would be nobody's panic.
		panic(fmt.Sprintf("keyturn: invalid WriteHeader code %d", code))
	case code < 200 && code != http.StatusSwitchingProtocols:
		h.ResponseWriter.WriteHeader(code) // interim: the response is yet to come
	default:
		h.begin(code)
	}
}

// begin takes the first status. Events are not kept back: whoever sends them
// means them to arrive one by one, flushed or not.
func (h *heldResponse) begin(status int) {
	if h.status != 0 {
		return
	}
	h.status = status
	if strings.HasPrefix(h.Header().Get("Content-Type"), "text/event-stream") {
		_ = h.send() // a header alone does not fail
	}
}

// Write implements http.ResponseWriter.
func (h *heldResponse) Write(p []byte) (int, error) {
	h.begin(http.StatusOK)
	if h.whole && len(h.body)+len(p) > h.limit {
		if err := h.send(); err != nil {
			return 0, err
		}
		h.whole, h.body = false, nil
	}
	if h.whole && (h.copies || !h.sent) {
		h.body = append(h.body, p...)
	}
	if !h.sent {
		return len(p), nil
	}
	return h.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls to flush.
func (h *heldResponse) FlushError() error {
	h.begin(http.StatusOK)
	if err := h.send(); err != nil {
		return err
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
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

// Unwrap lets http.ResponseController set deadlines and the like.
func (h *heldResponse) Unwrap() http.ResponseWriter { return h.ResponseWriter }
