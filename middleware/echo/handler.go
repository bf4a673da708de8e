package lockecho

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// guard is a rule with everything it needs to answer Echo's requests.
type guard struct {
	rule   *httprule.Rule
	skip   middleware.Skipper
	always bool // it skips no request
	refuse ErrorHandler
}

// middlewareOf makes Echo's form of middleware. err is what was wrong with r.
func middlewareOf(r *httprule.Rule, err error, skip middleware.Skipper, refuse ErrorHandler) (echo.MiddlewareFunc, error) {
	if err != nil {
		return nil, err
	}
	always := skip == nil
	if always {
		skip = middleware.DefaultSkipper
	}
	if refuse == nil {
		refuse = DefaultErrorHandler
	}
	return (&guard{rule: r, skip: skip, always: always, refuse: refuse}).wrap, nil
}

func (g *guard) wrap(next echo.HandlerFunc) echo.HandlerFunc {
	if next == nil {
		return g.wrapNothing()
	}
	return func(c echo.Context) error {
		if g.skip(c) || !g.rule.Applies(c.Request()) {
			return next(c)
		}
		return g.rule.Serve(sink{c.Response()}, &exchange{guard: g, c: c, next: next})
	}
}

// exchange is an Echo request.
type exchange struct {
	*guard
	httprule.Work
	c     echo.Context
	next  echo.HandlerFunc
	inner echo.Response // the response that the handler writes to
}

func (x *exchange) Request() *http.Request { return x.c.Request() }
func (x *exchange) Route() string          { return x.c.Path() }

func (x *exchange) PathValue(name string) (string, bool, error) {
	if !slices.Contains(x.c.ParamNames(), name) {
		return "", false, nil
	}
	value := x.c.Param(name)
	if x.c.Request().URL.RawPath == "" {
		return value, true, nil
	}
	// Echo matched the path as it was sent. %34%32 and 42 are the same path (RFC 3986,
	// 6.2.2.2), and must not be two locks.
	value, err := url.PathUnescape(value)
	if err != nil {
		err = errors.New("the path can't be decoded")
	}
	return value, true, err
}

// Handle gives the handler a response of its own, because what it writes may never be sent.
// Outer middleware keeps the other response, as it was. Handle also restores the request,
// because the lease has ended its context.
//
// With answered, Echo's error handler makes a response of an error here, where the rule can see
// it. The error is returned as well, for middleware that logs it; Echo does not answer a
// request twice.
func (x *exchange) Handle(ctx context.Context, w http.ResponseWriter, answered bool) error {
	c, req, res := x.c, x.c.Request(), x.c.Response()
	c.SetRequest(req.WithContext(ctx))
	x.inner = *echo.NewResponse(w, c.Echo())
	x.inner.Status = http.StatusOK // Echo's initial value
	c.SetResponse(&x.inner)
	defer func() {
		// A middleware such as ContextTimeout leaves its request here, whose context it has cancelled by now.
		x.TimedOut = errors.Is(c.Request().Context().Err(), context.DeadlineExceeded)
		c.SetRequest(req)
		c.SetResponse(res)
	}()
	err := x.next(c)
	if err != nil && answered {
		c.Error(err)
	}
	return err
}

func (x *exchange) Refuse(refused *reasons.Refusal) error {
	p := ProblemOf(refused)
	refused.Reason, refused.RetryAfter = p.Reason, p.RetryAfter // some are HTTP's own
	return x.refuse(x.c, refused)
}

func (x *exchange) TooLate(err error) error { return err }

// sink is Echo's response with only the methods of net/http.
type sink struct{ *echo.Response }

// WriteHeader passes interim responses on. Echo would take them for the final response.
func (s sink) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		s.Writer.WriteHeader(status)
		return
	}
	s.Response.WriteHeader(status)
}

// FlushError is what http.ResponseController calls to flush. Echo's Flush panics if it cannot
// flush, and hides other errors.
func (s sink) FlushError() error { return http.NewResponseController(s.Writer).Flush() }

// Hijack marks the response as sent: the connection is the handler's, and nobody should write
// an error to it.
func (s sink) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := s.Response.Hijack()
	if err == nil {
		s.Committed = true
	}
	return conn, rw, err
}
