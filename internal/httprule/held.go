package httprule

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// maxHeld is how much of a response is kept back, in memory and in a temporary file. A larger
// one is sent at once.
const maxHeld = 64 << 20

// heldResponse keeps a handler's response back until the lock is released. Before that nobody
// knows whether it may be sent: a handler that answered 200 may have lost its lease, and what
// was sent cannot be taken back. Also, a client that reads slowly would keep the lock for as
// long as it likes.
//
// A response that is larger than maxHeld, is flushed, or takes over the connection is sent at
// once; see stream.go.
type heldResponse struct {
	http.ResponseWriter             // where the response is sent
	x                   *Exchange   // the exchange of the response
	before              http.Header // headers that outer middleware had set

	status int         // 0: nothing written
	header http.Header // as it was when status was set: what the handler sets later is not sent
	body   spool       // everything that was written, while it is kept
	room   [128]byte   // memory for the beginning of body: most responses of APIs are short
	record int         // how many bytes the record may have; below 0: no record is made
	kept   bool

	sent     bool // what was written has been sent, and further writes are sent at once
	cut      bool // something could not be sent: the client has not got the whole response
	released bool // the lock is released
	hijacked bool
	ended    bool
	bound    stallBound
}

// hold begins to keep the response back. It is called once. record is how many bytes its record may have; below 0: it
// is not recorded.
func (x *Exchange) hold(record int) *heldResponse {
	h := &x.response
	h.x, h.ResponseWriter, h.record, h.kept = x, x.Writer, record, true
	h.body = spool{memory: h.room[:0], room: max(inMemory, record), dir: tempDir}
	if header := x.Writer.Header(); len(header) > 0 {
		h.before = header.Clone()
	}
	return h
}

// end undoes what was not sent. Another response may follow, for example from a middleware that
// recovers from a panic. A second call does nothing.
func (h *heldResponse) end() {
	if h.ended || h.ResponseWriter == nil {
		return
	}
	h.ended = true
	h.kept = false
	h.body.discard()
	if h.sent {
		return
	}
	header := h.Header()
	clear(header)
	maps.Copy(header, h.before)
}

// send sends what is kept. If the handler has not begun a response, the server makes one, with
// the headers that the handler has set.
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

// sendHeader sends the header as it was when the handler set the status. Later changes are not
// lost: some of them are trailers, which net/http reads when the handler has returned.
func (h *heldResponse) sendHeader() {
	header := h.Header()
	if maps.EqualFunc(header, h.header, slices.Equal) {
		h.ResponseWriter.WriteHeader(h.status)
		return
	}
	changed := maps.Clone(header)
	clear(header)
	maps.Copy(header, h.header)
	h.ResponseWriter.WriteHeader(h.status)
	clear(header)
	maps.Copy(header, changed)
}

// WriteHeader implements http.ResponseWriter.
func (h *heldResponse) WriteHeader(code int) {
	switch {
	case code < 100 || code > 999:
		// As net/http does. Later, in send, the panic would be outside the handler.
		panic(fmt.Sprintf("keyturn: invalid WriteHeader code %d", code))
	case code < 200 && code != http.StatusSwitchingProtocols:
		h.ResponseWriter.WriteHeader(code) // an interim status: the response is yet to come
	default:
		h.begin(code)
	}
}

// begin notes the first status. A stream of events is not kept back: its events should arrive
// one by one, flushed or not.
func (h *heldResponse) begin(status int) {
	if h.status != 0 {
		return
	}
	h.status, h.header = status, maps.Clone(h.Header())
	if strings.HasPrefix(h.Header().Get("Content-Type"), "text/event-stream") {
		_ = h.send() // sending only a header cannot fail
	}
}

// Write implements http.ResponseWriter.
func (h *heldResponse) Write(p []byte) (int, error) {
	h.begin(http.StatusOK)
	if h.kept {
		h.keep(p)
	}
	if !h.sent && !h.kept { // it cannot be kept back any longer
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

// keep adds p to what is kept, or stops keeping. Of a response that was sent, it keeps as much
// as a record may have.
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

// unkeptSaid is when the log was last told, in nanoseconds since 1970.
var unkeptSaid atomic.Int64

// sayUnkept tells the log, once a minute at most, that a response is sent while the lock is
// held. The handler has done its work, so the response does not fail because of it.
func (h *heldResponse) sayUnkept(err error) {
	last, now := unkeptSaid.Load(), time.Now().UnixNano()
	if now-last < int64(time.Minute) && now >= last || !unkeptSaid.CompareAndSwap(last, now) {
		return
	}
	level := slog.LevelError
	if errors.Is(err, ErrSpoolFull) {
		level = slog.LevelWarn
	}
	slog.Log(h.x.Request.Context(), level, "keyturn: a response is sent while its lock is held, because it can't be kept back", "route", h.x.request.route(h.x.Request), "error", err)
}
