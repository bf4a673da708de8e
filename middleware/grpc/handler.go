package lockgrpc

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/keyturn/keyturn/core/author"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// ErrorHandler answers refused calls in the service's own way. It returns the call's error, such as
// one with a code of the service; refused.Answer is the default, and so is nil. Without a handler, the
// engine's logger gets the error if the server is at fault, because the client is not told. The client gets the
// details of the default answer in addition, so that [Retry] understands both. Errors of handlers do not come here.
type ErrorHandler func(ctx context.Context, refused *reasons.Refusal) error

// WithErrorHandler returns an Interceptor with the same rules that answers refusals by h. Use it in
// place of i.
func (i *Interceptor) WithErrorHandler(h ErrorHandler) *Interceptor {
	rules := maps.Clone(i.rules)
	for method, r := range rules {
		with := *r
		with.handler = h
		rules[method] = &with
	}
	return &Interceptor{rules: rules}
}

// answer returns the error of a refused call or message. standard is the default answer.
func (r *boundRule) answer(ctx context.Context, keys rule.Keys, refused, standard error) error {
	if r.handler == nil {
		if status.Code(standard) == codes.Internal { // the client is not told, so the log has it
			author.Logger(r.Engine()).ErrorContext(ctx, "lockgrpc: refused a call", "rule", r.Name, "error", refused)
		}
		return standard
	}
	own := r.handler(ctx, refusal.Told(r.Name, keys.First, refused, standard))
	if own == nil || own == standard {
		return standard
	}
	return &answeredCall{own: own, refused: refused, status: detailed(own, standard)}
}

// answeredCall is the answer of an ErrorHandler, with the details that clients look for. An outer
// interceptor finds both errors.
type answeredCall struct {
	own, refused error
	status       *status.Status
}

func (a *answeredCall) Error() string              { return a.own.Error() }
func (a *answeredCall) GRPCStatus() *status.Status { return a.status }
func (a *answeredCall) Unwrap() []error            { return []error{a.own, a.refused} }

// Answer returns what the handler returned. Package lockconnect looks for it.
func (a *answeredCall) Answer() error { return a.own }

// detailed returns the status of own with the details of standard, unless it has an ErrorInfo of ours.
func detailed(own, standard error) *status.Status {
	s := status.Convert(own)
	if slices.ContainsFunc(s.Details(), func(d any) bool {
		info, ok := d.(*errdetails.ErrorInfo)
		return ok && info.GetDomain() == Domain
	}) {
		return s
	}
	var details []protoadapt.MessageV1
	for _, d := range status.Convert(standard).Details() {
		if m, ok := d.(protoadapt.MessageV1); ok {
			details = append(details, m)
		}
	}
	if with, err := s.WithDetails(details...); err == nil { // otherwise the code is OK, which has no details
		return with
	}
	return s
}
