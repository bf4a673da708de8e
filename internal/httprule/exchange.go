package httprule

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/keyturn/keyturn/middleware/reasons"
)

// Exchange is a request and its handler, with what a rule keeps for them: so a request costs one
// allocation for all. It belongs to one goroutine.
type Exchange struct {
	Writer  http.ResponseWriter
	Request *http.Request // its body may be replaced by one with the same content
	Next    http.Handler
	// Refuse answers instead of the handler.
	Refuse func(w http.ResponseWriter, r *http.Request, refused *reasons.Refusal)
	// LeaveBody: the handler reads the body from the client, because a rule of the request says so (Rule.LeavesBody).
	LeaveBody bool

	request  request
	response heldResponse
	timedOut bool  // see Ended
	failed   error // see Ended
	refused  bool  // a rule inside of this one refused the request or cut it short: the response is not the handler's
}

// Of returns the exchange of the response that a handler has been given, for frameworks whose handlers
// say more than net/http's; nil if it runs without a rule.
func Of(w http.ResponseWriter) *Exchange {
	if h, held := w.(*heldResponse); held {
		return h.x
	}
	return nil
}

// around calls f with the exchange of each rule that w writes through, innermost first.
func around(w http.ResponseWriter, f func(*Exchange)) {
	for {
		if x := Of(w); x != nil {
			f(x)
		}
		below, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = below.Unwrap()
	}
}

// Ended tells the rules of a handler that wrote to w how it ended. failed is the error that it returned, which may be a
// response, too. timedOut: a middleware inside of the rules has ended the handler's context by a deadline of its own. So
// the response may be a part, although the request's context goes on. A timeout stays noted, because a rule further out
// does not see the context that ended.
func Ended(w http.ResponseWriter, timedOut bool, failed error) {
	around(w, func(x *Exchange) {
		x.timedOut = x.timedOut || timedOut
		x.failed = failed
	})
}

// noteRefused tells the rules around a rule that wrote to w that it refused.
func noteRefused(w http.ResponseWriter) {
	around(w, func(x *Exchange) { x.refused = true })
}

// Late is the key of a func(error) in the context of a request. It is called, instead of the log, with
// an error that comes too late for an answer.
type Late struct{}

// tooLate is for an error that should have been answered, but another answer was sent already. It is logged,
// because nobody else sees it, unless somebody wants to be told.
func (x *Exchange) tooLate(err error) {
	ctx := x.Request.Context()
	if told, ok := ctx.Value(Late{}).(func(error)); ok {
		told(err)
		return
	}
	slog.ErrorContext(ctx, "lockhttp: too late for an answer", "route", x.Request.Pattern, "error", err)
}

// read prepares x for the request.
func (x *Exchange) read(r *Rule) *request {
	x.request.Request, x.request.route, x.request.limit = x.Request, r.route, r.bodyLimit
	return &x.request
}

// handle runs the handler, which writes to the response that is kept back.
func (x *Exchange) handle(ctx context.Context) {
	x.Next.ServeHTTP(&x.response, x.Request.WithContext(ctx))
}

// end frees everything, however the exchange ended.
func (x *Exchange) end() {
	x.response.end()
	x.request.end()
}
