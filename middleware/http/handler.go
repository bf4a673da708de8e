package lockhttp

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// guard is a rule with everything it needs to answer requests.
type guard struct {
	rule   *httprule.Rule
	skip   func(*http.Request) bool
	always bool // it skips no request
	refuse ErrorHandler
}

// middleware makes net/http's usual form of middleware. err is what was wrong with r.
func middleware(r *httprule.Rule, err error, skip func(*http.Request) bool, refuse ErrorHandler) (func(http.Handler) http.Handler, error) {
	if err != nil {
		return nil, err
	}
	always := skip == nil
	if always {
		skip = func(*http.Request) bool { return false }
	}
	if refuse == nil {
		refuse = DefaultErrorHandler
	}
	return (&guard{rule: r, skip: skip, always: always, refuse: refuse}).wrap, nil
}

func (g *guard) wrap(next http.Handler) http.Handler { return &handler{guard: g, next: next} }

// handler is another handler behind a rule.
type handler struct {
	*guard
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.skip(r) || !h.rule.Applies(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	_ = h.rule.Serve(w, &exchange{handler: h, w: w, r: r}) // an error has been answered already
}

// exchange is a net/http request.
type exchange struct {
	*handler
	httprule.Work
	w http.ResponseWriter
	r *http.Request
}

func (x *exchange) Request() *http.Request { return x.r }

// Route returns the pattern, which ServeMux and chi set. A sub-router of chi sets only its own
// part of the pattern, and two of them may have the same part. So the missing front part is
// taken from the path.
func (x *exchange) Route() string {
	pattern := x.r.Pattern
	if pattern == "/" { // the root of a sub-router, or a pattern for everything
		return ""
	}
	path := x.r.URL.EscapedPath()
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
	return value, value != "" || hasWildcard(x.r.Pattern, name), nil
}

// hasWildcard reports whether pattern has {name} or {name...}. chi also has {name:regexp}.
func hasWildcard(pattern, name string) bool {
	for {
		_, rest, found := strings.Cut(pattern, "{"+name)
		if !found {
			return false
		}
		if strings.HasPrefix(rest, "}") || strings.HasPrefix(rest, "...}") || strings.HasPrefix(rest, ":") {
			return true
		}
		pattern = rest
	}
}

func (x *exchange) Handle(ctx context.Context, w http.ResponseWriter, _ bool) error {
	x.next.ServeHTTP(w, x.r.WithContext(ctx))
	return nil
}

func (x *exchange) Refuse(refused *reasons.Refusal) error {
	p := ProblemOf(refused)
	refused.Reason, refused.RetryAfter = p.Reason, p.RetryAfter // some are HTTP's own
	x.refuse(x.w, x.r, refused)
	return refused
}

// TooLate logs the error, because no handler looks at the result of this one.
func (x *exchange) TooLate(err error) error {
	slog.ErrorContext(x.r.Context(), "lockhttp: too late for an answer", "route", x.r.Pattern, "error", err)
	return err
}
