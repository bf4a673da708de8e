// Package httprule is what a rule does with an HTTP request, for lockhttp and
// lockecho: where values come from, how a response is kept back until the lock
// is released, what is stored of it and how it comes back. The two differ in
// how their users write handlers and answer errors, and only that is in them.
package httprule

import (
	"context"
	"net/http"
)

// Exchange is a request and the handler that it goes to, as a framework has
// them. It belongs to one goroutine, and has a [Work] embedded.
type Exchange interface {
	// Request is the request. Its body may be exchanged for one that reads the
	// same.
	Request() *http.Request
	// Route names the route, in the same way for all of its requests; "" if it
	// is not known.
	Route() string
	// PathValue returns a parameter of the route, decoded. found: the route has
	// it, though it may be empty.
	PathValue(name string) (value string, found bool, err error)

	// Handle runs the handler, with ctx as its request's context and w to write
	// to. It returns the handler's error, if the framework's handlers have one.
	// With answered, an error was made a response before.
	Handle(ctx context.Context, w http.ResponseWriter, answered bool) error
	// Refuse answers in the handler's place, and returns what the middleware is
	// to return.
	Refuse(err error) error
	// TooLate is told why there should have been another answer than what was
	// sent; it returns what the middleware is to return.
	TooLate(err error) error

	worker
}

// worker is what a Work makes of an exchange that it is embedded in.
type worker interface{ work() *Work }

// Work is what a rule keeps of one exchange. It is a part of that, and not made by
// the rule, so that a request costs one allocation for both. The zero value is
// ready.
type Work struct {
	request  request
	response heldResponse
}

func (w *Work) work() *Work { return w }

// read begins with the request.
func (w *Work) read(x Exchange, bodyLimit int64) *request {
	w.request.Exchange, w.request.limit = x, bodyLimit
	return &w.request
}

// hold begins with the response; record is how many bytes the record of it may
// have, less than 0 if there is to be none.
func (w *Work) hold(x Exchange, to http.ResponseWriter, record int) *heldResponse {
	w.response.hold(x, to, record)
	return &w.response
}

// end leaves nothing behind, whatever became of the exchange.
func (w *Work) end() {
	w.response.end()
	w.request.end()
}
