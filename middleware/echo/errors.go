package lockecho

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/http"
)

// The reasons of refusals, in the member "reason" of the answer; package
// lockhttp says what each means.
const (
	ReasonLockHeld            = lockhttp.ReasonLockHeld
	ReasonWaitTimeout         = lockhttp.ReasonWaitTimeout
	ReasonTooManyWaiters      = lockhttp.ReasonTooManyWaiters
	ReasonLeaseLost           = lockhttp.ReasonLeaseLost
	ReasonFingerprintMismatch = lockhttp.ReasonFingerprintMismatch
	ReasonResultNotKept       = lockhttp.ReasonResultNotKept
	ReasonKeyInvalid          = lockhttp.ReasonKeyInvalid
	ReasonBodyTooLarge        = lockhttp.ReasonBodyTooLarge
	ReasonBodyTimeout         = lockhttp.ReasonBodyTimeout
	ReasonSpoolUnavailable    = lockhttp.ReasonSpoolUnavailable
	ReasonMediaType           = lockhttp.ReasonMediaType
	ReasonStoreUnavailable    = lockhttp.ReasonStoreUnavailable
	ReasonStopping            = lockhttp.ReasonStopping
	ReasonOutcomeUnknown      = lockhttp.ReasonOutcomeUnknown
	ReasonCanceled            = lockhttp.ReasonCanceled
	ReasonDeadlineExceeded    = lockhttp.ReasonDeadlineExceeded
	ReasonInternal            = lockhttp.ReasonInternal
)

// Problem is the answer to a refused request, problem details as in RFC 9457.
// It never says who has the lock, or which it is.
type Problem = lockhttp.Problem

// ProblemOf says how err, which an [ErrorHandler] was given, is answered: the
// table of the package's documentation.
func ProblemOf(err error) Problem {
	var unread *httprule.BodyError
	var answered *echo.HTTPError
	if errors.As(err, &unread) && errors.As(err, &answered) && answered.Code == http.StatusRequestEntityTooLarge {
		err = &http.MaxBytesError{} // Echo's BodyLimit refused the body before
	}
	return lockhttp.ProblemOf(err)
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
	if p.Status == http.StatusInternalServerError || p.Reason == ReasonSpoolUnavailable {
		c.Logger().Error(err) // the client is not told, so the log has it
	}
	p.Write(c.Response())
	return echo.NewHTTPError(p.Status, p).SetInternal(err)
}
