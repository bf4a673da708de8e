package lockecho

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
)

// The reasons of refusals, in the member "reason" of the answer. They are part
// of a service's interface: clients decide by them.
const (
	// ReasonLockHeld: another request has the lock, and the rule says not to
	// wait. Of Once: the first request is still being processed.
	ReasonLockHeld = "LOCK_HELD"
	// ReasonWaitTimeout: another request still had it after the maximum wait.
	ReasonWaitTimeout = "WAIT_TIMEOUT"
	// ReasonTooManyWaiters: too many requests wait for the lock already.
	ReasonTooManyWaiters = "TOO_MANY_WAITERS"
	// ReasonLeaseLost: the lock was lost while the handler ran. What it did may
	// have overlapped with another request.
	ReasonLeaseLost = "LEASE_LOST"
	// ReasonFingerprintMismatch: the key was used before for other content.
	ReasonFingerprintMismatch = "FINGERPRINT_MISMATCH"
	// ReasonResponseNotStored: the request was processed before, and its
	// response can't be given again.
	ReasonResponseNotStored = "RESPONSE_NOT_STORED"
	// ReasonKeyInvalid: the request lacks what makes the key, or it makes none.
	ReasonKeyInvalid = "KEY_INVALID"
	// ReasonBodyTooLarge: the body, which the key comes from, is over the limit.
	ReasonBodyTooLarge = "BODY_TOO_LARGE"
	// ReasonMediaType: the key comes from a JSON body, and this is another.
	ReasonMediaType = "MEDIA_TYPE"
	// ReasonStoreUnavailable: the store of the locks could not answer.
	ReasonStoreUnavailable = "STORE_UNAVAILABLE"
	// ReasonStopping: this server is stopping; another can serve the request.
	ReasonStopping = "STOPPING"
	// ReasonOutcomeUnknown: the handler succeeded, and whether that is on record
	// is not known. Repeating the request is safe.
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN"
	// ReasonCanceled: the caller hung up while it waited.
	ReasonCanceled = "CANCELED"
	// ReasonDeadlineExceeded: the request's deadline passed while it waited.
	ReasonDeadlineExceeded = "DEADLINE_EXCEEDED"
	// ReasonInternal: something is wrong in the server.
	ReasonInternal = "INTERNAL"
)

// Problem is the answer to a refused request, problem details as in RFC 9457.
// It never says who has the lock, or which it is.
type Problem struct {
	Type   string `json:"type"`  // about:blank: the status tells the type
	Title  string `json:"title"` // the status in words
	Status int    `json:"status"`
	Detail string `json:"detail"` // for people
	Reason string `json:"reason"` // for programs: one of the constants

	// RetryAfter is the header of that name, in whole seconds and at least one;
	// 0: no header, as it can't be said when a repeat would do better.
	RetryAfter time.Duration `json:"-"`
}

// defaultRetryAfter is what a caller is told where nothing better is known.
const defaultRetryAfter = time.Second

// ProblemOf says how err, which an [ErrorHandler] was given, is answered: the
// table of the package's documentation. The order matters, as an error can
// match several.
func ProblemOf(err error) Problem {
	if p, ok := requestProblem(err); ok {
		return p
	}
	retry := retryAfter(err)
	switch {
	case errors.Is(err, context.Canceled):
		return problem(middleware.StatusCodeContextCanceled, ReasonCanceled, "The request was canceled while it waited for its turn.", 0)
	case errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusServiceUnavailable, ReasonDeadlineExceeded, "The request's time was over while it waited for its turn.", 0)
	case errors.Is(err, core.ErrTooManyWaiters):
		return problem(http.StatusTooManyRequests, ReasonTooManyWaiters, "Too many requests are waiting.", retry)
	case errors.Is(err, core.ErrWaitTimeout):
		return problem(http.StatusConflict, ReasonWaitTimeout, "Another request is in progress and did not end in time.", retry)
	case errors.Is(err, core.ErrHeld):
		return problem(http.StatusConflict, ReasonLockHeld, "Another request is in progress.", retry)
	case errors.Is(err, core.ErrLeaseLost):
		// No Retry-After: the handler ran. Whether a repeat does harm is for the
		// caller to know.
		return problem(http.StatusConflict, ReasonLeaseLost, "The request lost its lock while it was running.", 0)
	case errors.Is(err, core.ErrFingerprintMismatch):
		return problem(http.StatusUnprocessableEntity, ReasonFingerprintMismatch, "The same id was sent before with other content.", 0)
	case errors.Is(err, errNoResponse):
		return problem(http.StatusConflict, ReasonResponseNotStored, "This was processed before, and its response was not stored: it can't be given again.", 0)
	case errors.Is(err, core.ErrOutcomeUnknown): // what left it unknown may be an outage
		return problem(http.StatusServiceUnavailable, ReasonOutcomeUnknown, "The request may not be on record.", retry)
	case errors.Is(err, core.ErrUnavailable):
		return problem(http.StatusServiceUnavailable, ReasonStoreUnavailable, "Locks are not available.", retry)
	case errors.Is(err, core.ErrClosed):
		return problem(http.StatusServiceUnavailable, ReasonStopping, "The server is stopping.", retry)
	}
	return problem(http.StatusInternalServerError, ReasonInternal, "The server can't process this request.", 0)
}

// requestProblem says what is wrong with the request. It names the placeholder,
// never its value.
func requestProblem(err error) (Problem, bool) {
	var (
		tooLarge *http.MaxBytesError
		unread   *bodyError
		route    *routeError
		value    *keytmpl.ValueError
		key      *core.KeyError
		answered *echo.HTTPError
	)
	switch {
	case errors.As(err, &route), errors.Is(err, errBodyGone):
		return Problem{}, false // the server's fault
	case errors.As(err, &tooLarge), errors.As(err, &answered) && answered.Code == http.StatusRequestEntityTooLarge:
		return problem(http.StatusRequestEntityTooLarge, ReasonBodyTooLarge, "The body is too large.", 0), true
	case errors.As(err, &unread):
		return problem(http.StatusBadRequest, ReasonKeyInvalid, "The body can't be read.", 0), true
	case errors.Is(err, errNotJSON):
		return problem(http.StatusUnsupportedMediaType, ReasonMediaType, "The body has to be JSON, by its Content-Type as well.", 0), true
	case errors.As(err, &value):
		return problem(http.StatusBadRequest, ReasonKeyInvalid, value.Placeholder.String()+": "+value.Err.Error(), 0), true
	case errors.As(err, &key):
		return problem(http.StatusBadRequest, ReasonKeyInvalid, "The request makes no key: it "+key.Reason+".", 0), true
	}
	return Problem{}, false
}

// bodyError is a body that broke off, or was refused by an earlier middleware.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

func problem(status int, reason, detail string, retry time.Duration) Problem {
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, Reason: reason, RetryAfter: retry,
	}
}

func retryAfter(err error) time.Duration {
	var held *core.HeldError
	var full *core.TooManyWaitersError
	var d time.Duration
	if errors.As(err, &held) {
		d = held.RetryAfter
	} else if errors.As(err, &full) {
		d = full.RetryAfter
	}
	if d <= 0 {
		return defaultRetryAfter
	}
	return (d + time.Second - 1).Truncate(time.Second)
}

// DefaultErrorHandler answers with the [Problem] of err, as
// application/problem+json. It returns an *echo.HTTPError around err, which
// Echo does not answer again, for middleware that logs or traces errors.
//
// The request's own cancel and deadline are left to Echo's HTTPErrorHandler, as
// Echo's own middleware does it: 499 as from its Proxy, and 503 as from its
// ContextTimeout.
func DefaultErrorHandler(c echo.Context, err error) error {
	p := ProblemOf(err)
	if p.Reason == ReasonCanceled || p.Reason == ReasonDeadlineExceeded {
		return echo.NewHTTPError(p.Status, p.Detail).SetInternal(err)
	}
	if p.Status == http.StatusInternalServerError {
		c.Logger().Error(err) // the client is not told, so somebody has to be
	}
	if p.RetryAfter > 0 {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.FormatInt(int64(p.RetryAfter/time.Second), 10))
	}
	body, _ := json.Marshal(p) // strings and a number
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	_ = c.Blob(p.Status, "application/problem+json", body) // else the client has gone
	return echo.NewHTTPError(p.Status, p).SetInternal(err)
}

// breakOff ends the connection, so that the client can't take what it got for a
// whole response. Closing it leaves the outer middleware in peace; where there
// is no connection to close, as in HTTP/2, a panic is what net/http wants, and
// what Echo's Recover lets through.
func breakOff(response *echo.Response) {
	conn, _, err := http.NewResponseController(response.Writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	conn.Close()
}
