package httprule

import (
	"context"
	"net/http"

	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
)

// serialize runs the handler while it holds the request's keys.
func (r *Rule) serialize(x *Exchange) {
	req := &x.request
	keys, err := r.rule.Keys(req.Context(), req)
	if err == nil && !x.LeaveBody && !r.rule.Shadow() {
		// From here on, only this server takes time.
		err = req.fill()
	}
	req.rewind()
	if err != nil {
		r.refuse(x, keys, err)
		return
	}
	h := x.hold(-1)
	refused, _ := r.rule.Serialize(x.Request.Context(), keys, func(ctx context.Context) error {
		x.handle(ctx)
		return nil
	})
	r.finish(x, keys, h, refused)
}

// refuse answers an error that is not the handler's.
func (r *Rule) refuse(x *Exchange, keys rule.Keys, err error) {
	noteRefused(x.Writer)
	x.Refuse(x.Writer, x.Request, refusal.Told(r.rule.Name, keys.First, err, nil))
}

// finish sends the handler's response or, if the engine refused, answers that instead. The lock
// is not held any more.
func (r *Rule) finish(x *Exchange, keys rule.Keys, h *heldResponse, refused error) {
	h.released = true
	if refused == nil {
		if err := h.send(); err != nil && isSpoolError(err) { // what was kept cannot be read back
			refused = err
		}
	}
	h.end()
	switch {
	case refused == nil:
	case h.sent:
		cutShort(x, h, refused)
	default:
		r.refuse(x, keys, refused)
	}
}

// cutShort ends a response that was sent in part and will not be whole.
func cutShort(x *Exchange, h *heldResponse, why error) {
	noteRefused(x.Writer)
	x.tooLate(why)
	if !h.hijacked { // after a hijack the connection is the handler's
		breakOff(x.Writer)
	}
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
