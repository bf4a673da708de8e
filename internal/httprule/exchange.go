package httprule

import (
	"context"
	"net/http"

	"github.com/keyturn/keyturn/middleware/reasons"
)

// Exchange is a request and its handler, in the form of a framework. It belongs to one
// goroutine, and embeds a [Work].
type Exchange interface {
	// Request returns the request. Its body may have been replaced by one with the same
	// content.
	Request() *http.Request
	// Route names the route, in the same way for all of its requests; "" if it is unknown.
	Route() string
	// PathValue returns a parameter of the route, decoded. found: the route has the parameter,
	// though it may be empty.
	PathValue(name string) (value string, found bool, err error)

	// Handle runs the handler. ctx is its request's context, and it writes to w.
	Handle(ctx context.Context, w http.ResponseWriter)
	// Refuse answers instead of the handler. It returns what the middleware has to return.
	Refuse(refused *reasons.Refusal) error
	// TooLate is called when err should have been answered, but another answer was sent
	// already. It returns what the middleware has to return.
	TooLate(err error) error

	worker
}

// worker returns the Work that an exchange embeds.
type worker interface{ work() *Work }

// Work is what a rule keeps for one exchange. The exchange embeds it, so that a request costs
// one allocation for both. The zero value is ready.
type Work struct {
	// LeaveBody: the handler reads the body from the client, because a rule of the request says so (Rule.LeavesBody).
	LeaveBody bool
	// TimedOut: a middleware inside of the rule has ended the handler's context by a deadline of its own. So
	// the response may be a part, although the request's context goes on.
	TimedOut bool
	// Failed: the handler has returned an error, which may be a response, too.
	Failed error

	request  request
	response heldResponse
	refused  bool // a rule inside of this one refused the request or cut it short: the response is not the handler's
}

func (w *Work) work() *Work { return w }

// WorkOf returns the Work of the response that a handler has been given, for frameworks whose handlers
// say more than net/http's; nil if it runs without a rule.
func WorkOf(w http.ResponseWriter) *Work {
	if h, held := w.(*heldResponse); held {
		return h.x.work()
	}
	return nil
}

// around calls f with the Work of each rule that w writes through, innermost first.
func around(w http.ResponseWriter, f func(*Work)) {
	for {
		if work := WorkOf(w); work != nil {
			f(work)
		}
		below, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = below.Unwrap()
	}
}

// Ended tells the rules of a handler that wrote to w how it ended: see TimedOut and Failed. A timeout stays noted,
// because a rule further out does not see the context that ended.
func Ended(w http.ResponseWriter, timedOut bool, failed error) {
	around(w, func(work *Work) {
		work.TimedOut = work.TimedOut || timedOut
		work.Failed = failed
	})
}

// noteRefused tells the rules around a rule that wrote to w that it refused.
func noteRefused(w http.ResponseWriter) {
	around(w, func(work *Work) { work.refused = true })
}

// Late is the key of a func(error) in the context of a request. It is called, instead of the log, with
// an error that comes too late for an answer.
type Late struct{}

// read prepares w for the request.
func (w *Work) read(x Exchange, bodyLimit int64) *request {
	w.request.Exchange, w.request.limit = x, bodyLimit
	return &w.request
}

// hold prepares w for the response. record is how many bytes its record may have; below 0: it
// is not recorded.
func (w *Work) hold(x Exchange, to http.ResponseWriter, record int) *heldResponse {
	w.response.hold(x, to, record)
	return &w.response
}

// end frees everything, however the exchange ended.
func (w *Work) end() {
	w.response.end()
	w.request.end()
}
