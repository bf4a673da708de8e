package lockecho

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// ProblemOf returns the answer to err, the error of an [ErrorHandler]: the table of the
// package's documentation.
func ProblemOf(err error) lockhttp.Problem {
	var unread *httprule.BodyError
	var answered *echo.HTTPError
	if errors.As(err, &unread) && errors.As(err, &answered) && answered.Code == http.StatusRequestEntityTooLarge {
		err = &http.MaxBytesError{} // Echo's BodyLimit refused the body before
	}
	return lockhttp.ProblemOf(err)
}

// DefaultErrorHandler answers with the [lockhttp.Problem] of err, as application/problem+json. It
// returns an *echo.HTTPError around err, which Echo does not answer again, for middleware that
// logs or traces errors.
//
// Echo's HTTPErrorHandler answers the request's own cancel and deadline, as for Echo's own
// middleware: 499 as from its Proxy, and 503 as from its ContextTimeout.
func DefaultErrorHandler(c echo.Context, refused *reasons.Refusal) error {
	p, err := ProblemOf(refused), refused.Err
	var own *echo.HTTPError
	if p.Reason == reasons.Forbidden && errors.As(err, &own) { // the precheck's
		return own
	}
	if p.Reason == reasons.Canceled || p.Reason == reasons.DeadlineExceeded {
		return echo.NewHTTPError(p.Status, p.Detail).SetInternal(err)
	}
	if p.Status == http.StatusInternalServerError || p.Reason == reasons.SpoolUnavailable {
		c.Logger().Error(err) // the client is not told, so the log has it
	}
	p.Write(c.Response())
	return echo.NewHTTPError(p.Status, p).SetInternal(err)
}
