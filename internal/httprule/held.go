package httprule

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// maxHeld is how much of a response is kept back, in memory and in a temporary
// file. A larger one is sent as it comes.
const maxHeld = 64 << 20

// heldResponse keeps a handler's response back until the lock is released.
// Before that it is not known whether it may be sent: a handler that answered
// 200 may have lost its lease, and nothing that was sent can be taken back. And a
// client that reads slowly would keep the lock for as long as it likes.
//
// What is larger than maxHeld, or is flushed, or takes over the connection, is
// sent as it comes; see stream.go.
type heldResponse struct {
	http.ResponseWriter             // where it is sent
	x                   Exchange    // whose response it is
	before              http.Header // what outer middleware had set

	status int       // 0: nothing written
	body   spool     // all that was written, while kept
	room   [128]byte // the beginning of body: most answers of APIs are short
	record int       // how many bytes the record of it may have; less than 0: none is made
	kept   bool

	sent     bool // what was written is on its way, and what follows goes along
	released bool // the lock
	hijacked bool
	ended    bool
	bound    stallBound
}

// hold begins, once.
func (h *heldResponse) hold(x Exchange, w http.ResponseWriter, record int) {
	h.x, h.ResponseWriter, h.record, h.kept = x, w, record, true
	h.body = spool{memory: h.room[:0], room: max(inMemory, record)}
	if header := w.Header(); len(header) > 0 {
		h.before = header.Clone()
	}
}

// end undoes what was not sent: what comes then is another response, such as
// that of whoever recovers from a panic. A second call does nothing.
func (h *heldResponse) end() {
	if h.ended || h.ResponseWriter == nil {
		return
	}
	h.ended = true
	h.drop()
	if h.sent {
		return
	}
	header := h.Header()
	clear(header)
	maps.Copy(header, h.before)
}

// drop keeps no more of the body.
func (h *heldResponse) drop() {
	h.kept = false
	h.body.discard()
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
	h.sendHeader()
	if err := h.forward(h.body.memory); err != nil || h.body.file == nil {
		return err
	}
	piece := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(piece)
	rest := &spoolReader{spool: &h.body, next: int64(len(h.body.memory))}
	for {
		n, err := rest.Read(piece[:])
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = h.forward(piece[:n])
		}
		if err != nil {
			return err
		}
	}
}

// sendHeader sends the header, without the trailers: the handler may have
// written those already, and net/http takes what is there now for the header.
func (h *heldResponse) sendHeader() {
	header := h.Header()
	var trailers http.Header
	for _, names := range header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, ok := header[name]; ok && name != "Trailer" {
				if trailers == nil {
					trailers = make(http.Header)
				}
				trailers[name] = values
				delete(header, name)
			}
		}
	}
	h.ResponseWriter.WriteHeader(h.status)
	maps.Copy(header, trailers)
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
	if h.kept {
		h.keep(p)
	}
	if !h.sent && !h.kept { // it can't be held back any longer
		if err := h.send(); err != nil {
			h.body.discard()
			return 0, err
		}
	}
	if !h.sent {
		return len(p), nil
	}
	if !h.kept {
		h.body.discard()
	}
	if err := h.forward(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// keep adds p to what is kept, or gives keeping up. Of what was sent as much is
// kept as a record can have.
func (h *heldResponse) keep(p []byte) {
	size := h.body.size + int64(len(p))
	if h.sent {
		h.kept = size <= int64(h.record) && h.body.write(p) == nil
		return
	}
	if h.kept = size <= maxHeld; !h.kept {
		return
	}
	if err := h.body.write(p); err != nil {
		h.kept = false
		h.sayUnkept(err)
	}
}

// unkeptSaid is when the log was told last, in nanoseconds since 1970.
var unkeptSaid atomic.Int64

// sayUnkept tells the log, once a minute at most, that a response goes out with
// the lock held. The handler has done its work, so the response does not fail for
// it.
func (h *heldResponse) sayUnkept(err error) {
	last, now := unkeptSaid.Load(), time.Now().UnixNano()
	if now-last < int64(time.Minute) && now >= last || !unkeptSaid.CompareAndSwap(last, now) {
		return
	}
	level := slog.LevelError
	if errors.Is(err, ErrSpoolFull) {
		level = slog.LevelWarn
	}
	slog.Log(h.x.Request().Context(), level, "keyturn: a response is sent while its lock is held, as it can't be kept back", "route", h.x.Route(), "err", err)
}
