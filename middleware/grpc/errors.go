package lockgrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// Domain is the ErrorInfo domain of every refusal, except the caller's own cancel and deadline.
const Domain = "keyturn"

// MethodKey is the key in an ErrorInfo's metadata whose value is the method that was refused,
// such as "/im.v1.Users/SetStatus". It is set if the whole call was refused, not if a message
// of a stream was.
const MethodKey = "method"

// refusedCall is an error with two faces: the client gets the status, and an outer interceptor
// gets the causes through errors.Is and errors.As.
type refusedCall struct {
	status *status.Status
	causes []error
}

// Error returns only the status: status.FromError uses the text of an error that wraps this one
// as the client's message.
func (r *refusedCall) Error() string              { return r.status.Err().Error() }
func (r *refusedCall) GRPCStatus() *status.Status { return r.status }
func (r *refusedCall) Unwrap() []error            { return r.causes }

// refuse returns the answer for refused: what kept the handler from running, or from running
// under its lease to the end.
func refuse(refused error) error { return refusalOf("", refused, nil) }

// refuse is for the call as a whole: it names the method. So a client sees that this call did
// not get its turn, and not one that its handler made while it ran. own is what the handler returned, if it ran.
func (r *boundRule) refuse(ctx context.Context, keys rule.Keys, refused, own error) error {
	return r.answer(ctx, keys, refused, refusalOf(r.Name, refused, own))
}

func refusalOf(method string, refused, own error) error {
	causes := []error{refused}
	if own != nil {
		causes = append(causes, own)
	}
	return &refusedCall{status: statusOf(method, refused), causes: causes}
}

// StatusOf returns the answer to err, what the engine said to a handler of method that called it,
// such as core.Engine.Do: the table of the package's documentation. An error that is not the engine's
// comes back as it is.
//
// Name the method if its handler has done nothing yet that a repeat would do twice: then [Retry] repeats
// the call. With "" it does not.
func StatusOf(method string, err error) error {
	switch kind := refusal.Of(err); {
	case kind == refusal.Internal:
		return err
	case kind.CallersEnd(): // perhaps of something else than a wait for a turn
		end := context.Canceled
		if kind == refusal.DeadlineExceeded {
			end = context.DeadlineExceeded
		}
		return &refusedCall{status: status.FromContextError(end), causes: []error{err}}
	}
	return refusalOf(method, err, nil)
}

// answers is the table in the package's documentation: one row for each kind of refusal. A new
// row begins with a new Kind in internal/refusal.
var answers = map[refusal.Kind]struct {
	code    codes.Code
	message string // for KeyInvalid: unless the error says more
}{
	refusal.Canceled:            {codes.Canceled, "the call was canceled while it waited for its turn"},
	refusal.DeadlineExceeded:    {codes.DeadlineExceeded, "the call's deadline passed while it waited for its turn"},
	refusal.KeyInvalid:          {codes.InvalidArgument, "the request makes no key"},
	refusal.TooManyWaiters:      {codes.ResourceExhausted, "too many calls are waiting"},
	refusal.WaitTimeout:         {codes.Aborted, "another call is in progress and did not end in time"},
	refusal.Held:                {codes.Aborted, "another call is in progress"},
	refusal.LeaseLost:           {codes.Aborted, "the call lost its lock while it was running"},
	refusal.LostByClose:         {codes.Aborted, "the call lost its lock while it was running"},
	refusal.FingerprintMismatch: {codes.FailedPrecondition, "the same id was sent before with other content"},
	refusal.ResultNotKept:       {codes.AlreadyExists, "this was carried out before, and its response was not kept"},
	refusal.OutcomeUnknown:      {codes.Unavailable, "the call may not be on record"},
	refusal.RolledBack:          {codes.Aborted, "another transaction was in the way"},
	refusal.Unavailable:         {codes.Unavailable, "locks are not available"},
	refusal.Closed:              {codes.Unavailable, "the server is stopping"},
	refusal.Deadlock:            {codes.Internal, "internal error"},
	refusal.Forbidden:           {codes.PermissionDenied, "not allowed"}, // unless the precheck's error has a status
	refusal.Panicked:            {codes.Internal, "internal error"},
	refusal.Internal:            {codes.Internal, "internal error"},
}

func statusOf(method string, err error) *status.Status {
	kind := refusal.Of(err)
	if kind == refusal.Internal || kind == refusal.Forbidden { // a key function's, or a precheck's
		var own interface{ GRPCStatus() *status.Status }
		if errors.As(err, &own) && own.GRPCStatus().Code() != codes.OK { // which nil is, too
			return own.GRPCStatus()
		}
	}
	answer := answers[kind]
	if kind.CallersEnd() { // gRPC's own text is enough
		return status.New(answer.code, answer.message)
	}
	info := &errdetails.ErrorInfo{Reason: kind.Reason(), Domain: Domain}
	if method != "" {
		info.Metadata = map[string]string{MethodKey: method}
	}
	details := []protoadapt.MessageV1{info}
	switch {
	case kind == refusal.KeyInvalid:
		message, wrong := badRequest(err)
		answer.message, details = cmp.Or(message, answer.message), append(details, wrong...)
	case kind.Again():
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(refusal.ClientsRetryAfter(err))})
	}
	s := status.New(answer.code, answer.message)
	if detailed, err := s.WithDetails(details...); err == nil {
		return detailed
	}
	return s
}

// badRequest says why no key can be made from the request. It names the field, never its value.
func badRequest(err error) (message string, details []protoadapt.MessageV1) {
	var value *keytmpl.ValueError
	var key *core.KeyError
	switch {
	case errors.As(err, &value):
		v := &errdetails.BadRequest_FieldViolation{Field: fieldName(value), Description: value.Err.Error()}
		return v.Field + ": " + v.Description,
			[]protoadapt.MessageV1{&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{v}}}
	case errors.As(err, &key):
		return "the request makes no key: it " + key.Reason, nil
	case errors.Is(err, keytmpl.ErrMissingValue):
		return "the request has no message to take a key from", nil
	}
	return "", nil
}

// fieldName returns the placeholder in the form that BadRequest wants: members[3].id, counted
// from 0, or members if the error is about the whole list.
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
