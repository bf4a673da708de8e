package lockhttp

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// Problem is the answer to a refused request: problem details as in RFC 9457. It never says
// which lock it is, or who has it.
type Problem struct {
	Type   string `json:"type"`  // about:blank: the status tells the type
	Title  string `json:"title"` // the status in words
	Status int    `json:"status"`
	Detail string `json:"detail"` // for people
	Reason string `json:"reason"` // for programs: one of the constants

	// RetryAfter is the header of that name, in whole seconds and at least one; 0: no header,
	// because nobody knows when a repeat could succeed.
	RetryAfter time.Duration `json:"-"`
}

// statusClientClosedRequest is what nginx and others log for a client that did not wait for its
// answer. It is not in the registry.
const statusClientClosedRequest = 499

// answers is the table of the package's documentation: one row for each kind of refusal. A new
// row begins with a new Kind in internal/refusal. [requestProblem] has the answers that only
// HTTP knows.
var answers = map[refusal.Kind]struct {
	status int
	detail string
}{
	refusal.Canceled:            {statusClientClosedRequest, "The request was canceled while it waited for its turn."},
	refusal.DeadlineExceeded:    {http.StatusServiceUnavailable, "The request's time was over while it waited for its turn."},
	refusal.KeyInvalid:          {http.StatusBadRequest, "The request makes no key."}, // unless requestProblem says more
	refusal.TooManyWaiters:      {http.StatusTooManyRequests, "Too many requests are waiting."},
	refusal.WaitTimeout:         {http.StatusConflict, "Another request is in progress and did not end in time."},
	refusal.Held:                {http.StatusConflict, "Another request is in progress."},
	refusal.LeaseLost:           {http.StatusConflict, "The request lost its lock while it was running."},
	refusal.LostByClose:         {http.StatusConflict, "The request lost its lock while it was running."},
	refusal.FingerprintMismatch: {http.StatusUnprocessableEntity, "The same id was sent before with other content."},
	refusal.ResultNotKept:       {http.StatusConflict, "This was processed before, and its response was not kept."},
	refusal.OutcomeUnknown:      {http.StatusServiceUnavailable, "The request may not be on record."},
	refusal.RolledBack:          {http.StatusConflict, "Another transaction was in the way."},
	refusal.Unavailable:         {http.StatusServiceUnavailable, "Locks are not available."},
	refusal.Closed:              {http.StatusServiceUnavailable, "The server is stopping."},
	refusal.Deadlock:            {http.StatusInternalServerError, serversFault},
	refusal.Forbidden:           {http.StatusForbidden, "This is not allowed."},
	refusal.Panicked:            {http.StatusInternalServerError, serversFault},
	refusal.Internal:            {http.StatusInternalServerError, serversFault},
}

const serversFault = "The server can't process this request."

// ProblemOf returns the answer to err, the error of an [ErrorHandler]: the table of the
// package's documentation.
func ProblemOf(err error) Problem {
	kind := refusal.Of(err)
	if kind != refusal.Forbidden { // which it is whatever the precheck's own error matches
		if p, ok := requestProblem(err); ok {
			return p
		}
	}
	var retry time.Duration
	if kind.Again() {
		retry = (refusal.ClientsRetryAfter(err) + time.Second - 1).Truncate(time.Second) // the header has no fractions
	}
	return problem(answers[kind].status, kind.Reason(), answers[kind].detail, retry)
}

// requestProblem says what is wrong with the request, or that the rule does not fit the route, or the server took the
// body away. It names the placeholder, never its value.
func requestProblem(err error) (Problem, bool) {
	var (
		route    *httprule.RouteError
		tooLarge *http.MaxBytesError
		unread   *httprule.BodyError
		spool    *httprule.SpoolError
		header   *httprule.HeaderError
		value    *keytmpl.ValueError
		key      *core.KeyError
	)
	switch {
	case errors.As(err, &route), errors.Is(err, httprule.ErrBodyGone): // though it may look like a fault of the request
		return problem(http.StatusInternalServerError, reasons.Internal, serversFault, 0), true
	case errors.As(err, &spool):
		return problem(http.StatusServiceUnavailable, reasons.SpoolUnavailable, "There is no room for the body.", refusal.DefaultRetryAfter), true
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, reasons.BodyTooLarge, "The body is too large.", 0), true
	case errors.As(err, &unread) && errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, reasons.BodyTimeout, "The body did not come in time.", 0), true
	case errors.As(err, &unread):
		return invalid("The body can't be read."), true
	case errors.Is(err, httprule.ErrNotJSON):
		return problem(http.StatusUnsupportedMediaType, reasons.MediaType, "The body has to be JSON, by its Content-Type as well.", 0), true
	case errors.As(err, &header):
		return invalid("The header " + header.Header + " " + header.Problem + "."), true
	case errors.Is(err, httprule.ErrNoCaller):
		return invalid("The caller could not be identified."), true
	case errors.As(err, &value):
		return invalid(value.Placeholder.String() + ": " + value.Err.Error()), true
	case errors.As(err, &key):
		return invalid("The request makes no key: it " + key.Reason + "."), true
	}
	return Problem{}, false
}

func invalid(detail string) Problem {
	return problem(http.StatusBadRequest, reasons.KeyInvalid, detail, 0)
}

func problem(status int, reason, detail string, retry time.Duration) Problem {
	title := http.StatusText(status)
	if status == statusClientClosedRequest {
		title = "Client Closed Request"
	}
	return Problem{Type: "about:blank", Title: title, Status: status, Detail: detail, Reason: reason, RetryAfter: retry}
}

// ErrorHandler answers a request instead of the handler, if the handler did not run, or if its
// response must not be sent because its lease was lost. refused has the reason, the rule, the key and
// when to come again; [ProblemOf] says what the default answer is.
//
// It is not called if a part of the response has been sent. Then the connection ends, and
// slog.Default() logs it.
type ErrorHandler func(w http.ResponseWriter, r *http.Request, refused *reasons.Refusal)

// byHTTP tells h also what only HTTP knows of a refusal.
func byHTTP(h ErrorHandler) ErrorHandler {
	return func(w http.ResponseWriter, r *http.Request, refused *reasons.Refusal) {
		p := ProblemOf(refused)
		refused.Reason, refused.RetryAfter, refused.Again = p.Reason, p.RetryAfter, p.RetryAfter > 0
		h(w, r, refused)
	}
}

// DefaultErrorHandler answers with the [Problem] of the refusal. If the server is at fault,
// slog.Default() gets the error, because the client is not told.
func DefaultErrorHandler(w http.ResponseWriter, r *http.Request, refused *reasons.Refusal) {
	p := ProblemOf(refused)
	if p.Status == http.StatusInternalServerError || p.Reason == reasons.SpoolUnavailable {
		slog.ErrorContext(r.Context(), "lockhttp: refused a request", "error", refused.Err)
	}
	p.Write(w)
}

// Write answers with p, as application/problem+json.
func (p Problem) Write(w http.ResponseWriter) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(p.RetryAfter/time.Second), 10))
	}
	body, _ := json.Marshal(p) // strings and a number can always be encoded
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // an error means that the client has gone
}
