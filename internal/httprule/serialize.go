package httprule

import (
	"context"
	"net/http"

	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
)

// serialize runs the handler while it holds the request's keys.
func (r *Rule) serialize(w http.ResponseWriter, x Exchange) error {
	work := x.work()
	req := work.read(x, r.bodyLimit)
	keys, err := r.keys(req)
	if err == nil && !work.LeaveBody && !r.rule.Shadow() {
		// From here on, only this server takes time.
		err = req.fill()
	}
	req.rewind()
	if err != nil {
		return r.refuse(w, x, keys, err)
	}
	h := work.hold(x, w, -1)
	refused, own := r.rule.Serialize(x.Request().Context(), keys, func(ctx context.Context) error {
		x.Handle(ctx, h)
		return work.Failed
	})
	return r.finish(x, keys, h, refused, own)
}

// keys makes the request's keys.
func (r *Rule) keys(req *request) (rule.Keys, error) {
	keys, err := r.rule.Keys(req)
	return keys, refusal.OfKeys(req.Request().Context(), err)
}

// refuse answers an error that is not the handler's. w is the writer of the exchange.
func (r *Rule) refuse(w http.ResponseWriter, x Exchange, keys rule.Keys, err error) error {
	noteRefused(w)
	return x.Refuse(refusal.Told(r.rule.Name, keys.First, err))
}

// finish sends the handler's response or, if the engine refused, answers that instead. The lock
// is not held any more.
func (r *Rule) finish(x Exchange, keys rule.Keys, h *heldResponse, refused, own error) error {
	h.released = true
	if refused == nil {
		err := h.send()
		h.end()
		if err != nil && isSpoolError(err) { // what was kept cannot be read back
			return cutShort(x, h, err)
		}
		if own != nil {
			return own // unchanged: frameworks look at its type
		}
		return err
	}
	h.end()
	if !h.sent {
		return r.refuse(h.ResponseWriter, x, keys, refused)
	}
	return cutShort(x, h, refused)
}

// cutShort ends a response that was sent in part and will not be whole.
func cutShort(x Exchange, h *heldResponse, why error) error {
	noteRefused(h.ResponseWriter)
	err := x.TooLate(why)
	if !h.hijacked { // after a hijack the connection is the handler's
		breakOff(h.ResponseWriter)
	}
	return err
}

// breakOff ends the connection, so that the client cannot take a part for the whole response.
// Closing the connection does not disturb outer middleware. If there is no connection to close,
// as in HTTP/2, net/http expects a panic.
func breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	conn.Close()
}
