package lockgrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
)

// Domain is the ErrorInfo domain of every refusal but the caller's own cancel
// and deadline.
const Domain = "keyturn"

// MethodKey is the name in an ErrorInfo's metadata of the method that was
// refused, "/im.v1.Users/SetStatus". It is there when the call as a whole was;
// not, when one of the messages on a stream was.
const MethodKey = "method"

// The ErrorInfo reasons of refusals. They are part of a service's interface:
// clients decide by them.
const (
	// ReasonLockHeld: another call has the lock, and the rule says not to wait.
	ReasonLockHeld = "LOCK_HELD"
	// ReasonWaitTimeout: another call still had it after the maximum wait.
	ReasonWaitTimeout = "WAIT_TIMEOUT"
	// ReasonTooManyWaiters: too many calls wait for the lock already.
	ReasonTooManyWaiters = "TOO_MANY_WAITERS"
	// ReasonLeaseLost: the lock was lost while the handler ran. What it did may
	// have overlapped with another call.
	ReasonLeaseLost = "LEASE_LOST"
	// ReasonFingerprintMismatch: the key was used before for other content.
	ReasonFingerprintMismatch = "FINGERPRINT_MISMATCH"
	// ReasonKeyInvalid: the request lacks what makes the key, or it makes none.
	ReasonKeyInvalid = "KEY_INVALID"
	// ReasonStoreUnavailable: the store of the locks could not answer.
	ReasonStoreUnavailable = "STORE_UNAVAILABLE"
	// ReasonStopping: this server is stopping; another can serve the call.
	ReasonStopping = "STOPPING"
	// ReasonOutcomeUnknown: the store did not say whether it recorded that the
	// handler succeeded. Repeating the call is safe.
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN"
	// ReasonResultNotKept: the call was carried out before, and its response was
	// too large to be kept. Repeating the call gives the same answer.
	ReasonResultNotKept = "RESULT_NOT_KEPT"
	// ReasonInternal: something else is wrong in the server.
	ReasonInternal = "INTERNAL"
)

// defaultRetryDelay is what a caller is told where nothing better is known.
const defaultRetryDelay = time.Second

// refusal is an error with two faces: the client gets the status, whoever
// wraps the server's calls gets the causes through errors.Is and errors.As.
type refusal struct {
	status *status.Status
	causes []error
}

// Error is the status alone. status.FromError takes the text of an error that
// wraps this one for the client's message.
func (r *refusal) Error() string              { return r.status.Err().Error() }
func (r *refusal) GRPCStatus() *status.Status { return r.status }
func (r *refusal) Unwrap() []error            { return r.causes }

// refuse answers with what kept the handler from running, or from having run
// under its lock. Own is what the handler returned, if it ran.
func refuse(refused, own error) error { return refusalOf("", refused, own) }

// refuse is for the call as a whole: it names the method. A client sees by that
// that it was this call which did not get its turn, and not one that its handler
// made while it ran.
func (r *boundRule) refuse(refused, own error) error { return refusalOf(r.Name, refused, own) }

func refusalOf(method string, refused, own error) error {
	causes := []error{refused}
	if own != nil {
		causes = append(causes, own)
	}
	return &refusal{status: statusOf(method, refused), causes: causes}
}

// statusOf is the table in the package's documentation. The order matters: an
// error can match several.
func statusOf(method string, err error) *status.Status {
	var (
		held    *core.HeldError
		full    *core.TooManyWaitersError
		delay   time.Duration
		invalid = badRequest(err)
	)
	if errors.As(err, &held) {
		delay = held.RetryAfter
	} else if errors.As(err, &full) {
		delay = full.RetryAfter
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the call was canceled while it waited for its turn")
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "the call's deadline passed while it waited for its turn")
	case invalid != nil:
		return refusalStatus(method, codes.InvalidArgument, ReasonKeyInvalid, invalid.message, invalid.details...)
	case errors.Is(err, core.ErrTooManyWaiters):
		return refusalStatus(method, codes.ResourceExhausted, ReasonTooManyWaiters, "too many calls are waiting", retryIn(delay))
	case errors.Is(err, core.ErrWaitTimeout):
		return refusalStatus(method, codes.Aborted, ReasonWaitTimeout, "another call is in progress and did not end in time", retryIn(delay))
	case errors.Is(err, core.ErrHeld):
		return refusalStatus(method, codes.Aborted, ReasonLockHeld, "another call is in progress", retryIn(delay))
	case errors.Is(err, core.ErrLeaseLost):
		// No RetryInfo: the handler ran. Whether a repeat does harm is for the
		// caller to know.
		return refusalStatus(method, codes.Aborted, ReasonLeaseLost, "the call lost its lock while it was running")
	case errors.Is(err, core.ErrFingerprintMismatch):
		return refusalStatus(method, codes.FailedPrecondition, ReasonFingerprintMismatch, "the same id was sent before with other content")
	case errors.Is(err, core.ErrResultNotKept):
		return refusalStatus(method, codes.AlreadyExists, ReasonResultNotKept, "this was carried out before, and its response was not kept")
	case errors.Is(err, core.ErrOutcomeUnknown):
		return refusalStatus(method, codes.Unavailable, ReasonOutcomeUnknown, "the call may not be on record", retryIn(delay))
	case errors.Is(err, core.ErrUnavailable):
		return refusalStatus(method, codes.Unavailable, ReasonStoreUnavailable, "locks are not available", retryIn(delay))
	case errors.Is(err, core.ErrClosed):
		return refusalStatus(method, codes.Unavailable, ReasonStopping, "the server is stopping", retryIn(delay))
	default:
		return refusalStatus(method, codes.Internal, ReasonInternal, "internal error")
	}
}

func refusalStatus(method string, code codes.Code, reason, message string, details ...protoadapt.MessageV1) *status.Status {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain}
	if method != "" {
		info.Metadata = map[string]string{MethodKey: method}
	}
	s := status.New(code, message)
	if detailed, err := s.WithDetails(append([]protoadapt.MessageV1{info}, details...)...); err == nil {
		s = detailed
	}
	return s
}

func retryIn(d time.Duration) *errdetails.RetryInfo {
	if d <= 0 {
		d = defaultRetryDelay
	}
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// invalidKey is the answer to a request that makes no key.
type invalidKey struct {
	message string
	details []protoadapt.MessageV1
}

// badRequest says which part of the request makes no key; nil if err is not
// the caller's fault. It names the field, never its value.
func badRequest(err error) *invalidKey {
	var value *keytmpl.ValueError
	var key *core.KeyError
	switch {
	case errors.As(err, &value):
		v := &errdetails.BadRequest_FieldViolation{Field: fieldName(value), Description: value.Err.Error()}
		return &invalidKey{
			message: v.Field + ": " + v.Description,
			details: []protoadapt.MessageV1{&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{v}}},
		}
	case errors.As(err, &key):
		return &invalidKey{message: "the request makes no key: it " + key.Reason}
	case errors.Is(err, keytmpl.ErrMissingValue):
		return &invalidKey{message: "the request has no message to take a key from"}
	}
	return nil
}

// fieldName is the placeholder as BadRequest wants it, members[3].id, counted
// from 0; and members, where it is about the whole list.
func fieldName(e *keytmpl.ValueError) string {
	p := e.Placeholder
	p.Filters, p.Hash = nil, false
	name := strings.Trim(p.String(), "{}")
	list, rest, ok := strings.Cut(name, "[*]")
	if ok && e.Element >= 0 {
		return fmt.Sprintf("%s[%d]%s", list, e.Element, rest)
	}
	return list
}
