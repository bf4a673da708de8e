package lockhttp

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// exchange is a net/http request.
type exchange struct {
	*guard
	httprule.Work
	refuse ErrorHandler
	next   http.Handler
	w      http.ResponseWriter
	r      *http.Request
}

func (x *exchange) Request() *http.Request { return x.r }

// Route returns the route of the rule or, if that is for everything, of the request. "/" says nothing: it is
// the root of a sub-router, or for everything.
func (x *exchange) Route() string {
	route := x.path
	if route == everything {
		route = routeOf(x.r)
	}
	if route == "/" {
		return ""
	}
	return route
}

// routeOf returns the pattern of a request, with the front part that a sub-router leaves out.
func routeOf(r *http.Request) string {
	path, _ := pathOf(r)
	return front(r.Pattern, path) + r.Pattern
}

func (x *exchange) PathValue(name string) (string, bool, error) {
	value := x.r.PathValue(name)
	return value, value != "" || slices.Contains(wildcards(x.r.Pattern), name), nil
}

func (x *exchange) Handle(ctx context.Context, w http.ResponseWriter) {
	x.next.ServeHTTP(w, x.r.WithContext(ctx))
}

func (x *exchange) Refuse(refused *reasons.Refusal) error {
	p := ProblemOf(refused)
	refused.Reason, refused.RetryAfter = p.Reason, p.RetryAfter // some are HTTP's own
	x.refuse(x.w, x.r, refused)
	return refused
}

// TooLate logs the error, because no handler looks at the result of this one, unless somebody wants to be told.
func (x *exchange) TooLate(err error) error {
	if told, ok := x.r.Context().Value(httprule.Late{}).(func(error)); ok {
		told(err)
		return err
	}
	slog.ErrorContext(x.r.Context(), "lockhttp: too late for an answer", "route", x.r.Pattern, "error", err)
	return err
}
