package httprule

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// Memory says which responses a rule stores, and what of them.
type Memory struct {
	Headers  []string            // stored in addition to alwaysStored
	Storable func(Response) bool // nil: DefaultStorable

	limit int // of a record, in bytes; set by bind
}

// Response: see lockhttp.Response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// check fills what is left open. Headers then has all that are stored.
func (m Memory) check() (*Memory, error) {
	headers, err := storedHeaders(m.Headers)
	m.Headers = headers
	if m.Storable == nil {
		m.Storable = func(r Response) bool { return DefaultStorable(r.Status) }
	}
	return &m, err
}

// DefaultStorable: see lockhttp.DefaultStorable.
func DefaultStorable(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < http.StatusInternalServerError
}

// errNotStored abandons the claim of an execution whose response reports a failure.
var errNotStored = errors.New("keyturn: the response must not be stored")

// once runs the handler, or sends the stored response.
func (r *Rule) once(x *Exchange) {
	req := &x.request
	keys, content, err := r.identify(req)
	req.rewind()
	if err != nil {
		r.refuse(x, keys, err)
		return
	}
	h := x.hold(r.memory.limit)
	out, refused, _ := r.rule.RunOnce(x.Request.Context(), keys, func(ctx context.Context) ([]byte, error) {
		x.handle(ctx)
		stored, err := r.memory.record(h)
		if err == nil && x.timedOut { // as after the end of ctx: see rule.RunOnce
			err = core.ErrSkipResult
		}
		return stored, err
	}, core.WithFingerprint(content), core.WithResultLimit(r.memory.limit))
	if refused != nil || !out.Duplicate {
		r.finish(x, keys, h, refused)
		return
	}
	h.end()
	err = r.rule.Check(req) // the request may have waited for long
	if err == nil {
		err = replay(x.Writer, out.Result)
	}
	if err != nil {
		r.refuse(x, keys, err)
	}
}

// identify returns the request's key, and the digest of its content.
func (r *Rule) identify(req *request) (keys rule.Keys, content []byte, err error) {
	keys, err = r.rule.Keys(req.Context(), req)
	if err != nil || keys.Missing() {
		return keys, nil, err
	}
	content, err = req.fingerprint()
	keys, err = r.rule.Spare(keys, err)
	return keys, content, err
}

// record returns what to store of h. errNotStored: the execution does not count.
// core.ErrSkipResult: only the fact is stored, because there is no whole response. Only the response tells whether the
// handler's error is a result, such as 404, or a failure.
func (m *Memory) record(h *heldResponse) ([]byte, error) {
	if h.x.refused {
		return nil, errNotStored
	}
	status, header := h.status, h.header
	if status == 0 {
		if h.x.failed != nil { // nobody has made a response of the error
			return nil, errNotStored
		}
		status, header = http.StatusOK, h.Header()
	}
	if !h.hijacked && !m.Storable(Response{status, header, h.body.memory}) {
		return nil, errNotStored
	}
	if !h.kept || h.body.size > int64(m.limit) || h.hijacked || m.limit == 0 || !h.whole(header) {
		return nil, core.ErrSkipResult
	}
	return encode(response{status, pick(header, m.Headers), h.body.memory, pick(trailers(header, h.Header()), m.Headers)}), nil
}

// whole reports whether the response is all that the handler meant to send. A stored part would come
// back with a Content-Length that fits it.
func (h *heldResponse) whole(header http.Header) bool {
	stated := header.Get("Content-Length")
	if stated == "" || h.x.Request.Method == http.MethodHead || h.status == http.StatusNotModified {
		return !h.cut
	}
	return !h.cut && stated == strconv.FormatInt(h.body.size, 10)
}

// replay sends the stored response. An error says that there is none.
func replay(w http.ResponseWriter, rec []byte) error {
	res, err := decode(rec)
	if err != nil {
		return err
	}
	header := w.Header()
	maps.Copy(header, res.header)
	header.Set(ReplayedHeader, "true")
	for name := range res.trailer {
		header.Add("Trailer", name)
	}
	w.WriteHeader(res.status)
	if len(res.body) > 0 {
		_, _ = w.Write(res.body) // an error means that the client has gone
	}
	maps.Copy(header, res.trailer)
	return nil
}
