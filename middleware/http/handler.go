package lockhttp

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

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

// Route returns the pattern, unless it says nothing: of the root of a sub-router, or for everything.
func (x *exchange) Route() string {
	if x.r.Pattern == "/" {
		return ""
	}
	return routeOf(x.r)
}

// routeOf returns the pattern, which ServeMux and chi set. A sub-router of chi sets only its own
// part of the pattern, and two of them may have the same part. So the missing front part is
// taken from the path.
func routeOf(r *http.Request) string {
	pattern, path := r.Pattern, r.URL.EscapedPath()
	missing := strings.Count(path, "/") - strings.Count(pattern, "/")
	if missing <= 0 || !strings.HasPrefix(pattern, "/") || isSubtree(pattern) {
		return pattern
	}
	at := 0
	for ; missing > 0; missing-- {
		at += 1 + strings.Index(path[at+1:], "/")
	}
	return path[:at] + pattern
}

// isSubtree reports whether pattern stands for any number of levels, so that the levels of a
// path are unknown.
func isSubtree(pattern string) bool {
	return strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "*") || strings.HasSuffix(pattern, "...}")
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
