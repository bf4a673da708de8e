package httprule

import (
	"context"
	"net/http"

	"github.com/keyturn/keyturn/core"
)

// heldBytes is how much of a response is kept back until the lock is released.
const heldBytes = core.DefaultResultLimit

// serialize runs the handler while it holds what the request names.
func (r *Rule) serialize(w http.ResponseWriter, x Exchange) error {
	work := x.work()
	req := work.read(x, r.bodyLimit)
	keys, err := r.rule.Keys(req)
	req.rewind()
	if err != nil {
		return x.Refuse(err)
	}
	h := work.hold(w, heldBytes, false)
	defer h.end() // for a panic; else it is done below
	refused, own := r.rule.Serialize(x.Request().Context(), keys, func(ctx context.Context) error {
		return x.Handle(ctx, h, false)
	})
	return finish(x, h, refused, own)
}

// finish sends the handler's response or, if the engine refused, answers that
// in its place.
func finish(x Exchange, h *heldResponse, refused, own error) error {
	if refused == nil {
		err := h.send()
		h.end()
		if own != nil {
			return own // as it is: frameworks look at its type
		}
		return err
	}
	h.end()
	if !h.sent {
		return x.Refuse(refused)
	}
	err := x.TooLate(refused)
	if !h.hijacked { // else the connection is the handler's
		breakOff(h.ResponseWriter)
	}
	return err
}

// breakOff ends the connection, so that the client can't take what it got for a
// whole response. Closing it leaves the outer middleware in peace; where there
// is no connection to close, as in HTTP/2, a panic is what net/http wants.
func breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	conn.Close()
}
