package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// Every row of the table in the package's documentation, over a connection.
func TestRefusals(t *testing.T) {
	const key, anyTime = "user:42", time.Duration(-1)
	secret := errors.New("secret: password of redis at 10.1.2.3")
	failing := func(acquire, complete error) driver.Store {
		s := ruletest.NewStore()
		s.BreakDown(acquire, complete)
		return s
	}
	ends := func(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, after)
		}
	}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	for _, tt := range []struct {
		name   string
		only   string          // one of guarded; default: all
		store  driver.Store    // default: a memstore, in which another process has the key
		opt    core.CallOption // of the rule
		closed bool            // the engine is, before
		end    func(context.Context) (context.Context, context.CancelFunc)
		code   codes.Code
		reason string
		after  time.Duration // in RetryInfo; 0: there is none
		is     error
	}{
		{name: "held, fail-fast", opt: core.WithFailFast(), code: codes.Aborted, reason: reasons.LockHeld, after: anyTime, is: core.ErrHeld},
		{name: "held, for a known time", store: failing(&core.HeldError{Key: key, RetryAfter: 70 * time.Millisecond}, nil), opt: core.WithFailFast(), code: codes.Aborted, reason: reasons.LockHeld, after: 70 * time.Millisecond, is: core.ErrHeld},
		{name: "held, waited", opt: core.WithMaxWait(time.Millisecond), code: codes.Aborted, reason: reasons.WaitTimeout, after: anyTime, is: core.ErrWaitTimeout},
		{name: "too many waiters", store: failing(&core.TooManyWaitersError{Key: key, Limit: 3}, nil), code: codes.ResourceExhausted, reason: reasons.TooManyWaiters, after: anyTime, is: core.ErrTooManyWaiters},
		{name: "store down", store: failing(&core.UnavailableError{Op: "acquire", Err: secret}, nil), code: codes.Unavailable, reason: reasons.StoreUnavailable, after: anyTime, is: core.ErrUnavailable},
		{name: "engine closed", closed: true, code: codes.Unavailable, reason: reasons.Stopping, after: anyTime, is: core.ErrClosed},
		{name: "record uncertain", only: "once", store: failing(nil, ruletest.ErrDown), opt: core.WithTTL(30 * time.Millisecond), code: codes.Unavailable, reason: reasons.OutcomeUnknown, after: anyTime, is: core.ErrOutcomeUnknown},
		{name: "it would wait for itself", store: failing(&driver.DeadlockError{Key: key}, nil), code: codes.Internal, reason: reasons.Internal, is: core.ErrWouldDeadlock},
		{name: "anything else", store: failing(secret, nil), code: codes.Internal, reason: reasons.Internal, is: secret},
		{name: "caller's deadline", end: ends(20 * time.Millisecond), code: codes.DeadlineExceeded, is: context.DeadlineExceeded},
		{name: "caller's deadline, before", end: ends(-time.Second), code: codes.DeadlineExceeded, is: context.DeadlineExceeded},
		{name: "caller's cancel", end: canceled, code: codes.Canceled, is: context.Canceled},
	} {
		for kind, g := range guarded {
			if tt.only != "" && tt.only != kind {
				continue
			}
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				store, private := tt.store, []string{key, "secret"}
				if store == nil {
					store = memstore.New()
					private = append(private, hold(t, store, key).Owner())
					if host, err := os.Hostname(); err == nil && len(host) > 3 {
						private = append(private, host)
					}
				}
				var log strings.Builder
				eng := engine(t, store, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				var rule []core.CallOption
				if tt.opt != nil {
					rule = append(rule, tt.opt)
				}
				passed := make(seen, 1)
				opts := passed.options()
				if tt.end != nil {
					opts = append(opts, outside(tt.end)...)
				}
				s := idle(t)
				if tt.only == "once" {
					s = &server{} // whose response is not on record
				}
				c := serve(t, s, locks(t, eng, g.rule(rule...)), opts...)
				if tt.closed {
					must(t, eng.Close(bounded(t)))
				}

				err := g.send(bounded(t), c, "42")

				check(t, status.Code(err) == tt.code && reason(t, err) == tt.reason, "got %v, reason %q; want %v, %q", err, reason(t, err), tt.code, tt.reason)
				if info, ok := detail[*errdetails.ErrorInfo](err); ok && (info.GetMetadata()[lockgrpc.MethodKey] == g.method) != (kind != "message") {
					t.Errorf("the method in %v", info)
				}
				retry, ok := detail[*errdetails.RetryInfo](err)
				if after := retry.GetRetryDelay().AsDuration(); ok != (tt.after != 0) || ok && after <= 0 || tt.after > 0 && after != tt.after {
					t.Errorf("RetryInfo %v, want %v", retry, tt.after)
				}
				// A call may be sent again if it has not run; and so may a stream, but not one
				// of which a message was refused.
				if _, again := lockgrpc.RetryAfter(g.method, err); again != (ok && kind != "message" && tt.reason != reasons.OutcomeUnknown) {
					t.Errorf("RetryAfter: %v", again)
				}
				inside := ruletest.Receive(t, "end", passed)
				check(t, errors.Is(inside, tt.is), "outer interceptors see %v, want %v", inside, tt.is)
				if tt.reason == reasons.Internal && (strings.Count(log.String(), "level=ERROR") != 1 || !strings.Contains(log.String(), g.method)) {
					t.Errorf("the log says %q", log.String())
				}
				// A handler answers in the same way what the engine says to it.
				said := inside.(interface{ Unwrap() []error }).Unwrap()[0]
				if again := lockgrpc.StatusOf(g.method, said); tt.is == secret {
					check(t, again == said, "StatusOf another's error: %v", again)
				} else {
					after, ok := lockgrpc.RetryAfter(g.method, again)
					check(t, status.Code(again) == tt.code && reason(t, again) == tt.reason && errors.Is(again, tt.is), "StatusOf: %v, reason %q", again, reason(t, again))
					check(t, ok == (tt.after != 0 && tt.reason != reasons.OutcomeUnknown) && (!ok || tt.after < 0 || after == tt.after), "StatusOf: again after %v, %v", after, ok)
				}
				for _, told := range []string{
					prototext.Format(status.Convert(err).Proto()),
					// An interceptor may wrap what it gets, and the text with it.
					prototext.Format(status.Convert(fmt.Errorf("outer: %w", inside)).Proto()),
				} {
					for _, p := range private {
						check(t, !strings.Contains(told, p), "the caller is told %q: %s", p, told)
					}
				}
			})
		}
	}
}

// A service answers refusals in its own codes, and clients of ours still understand them.
func TestErrorHandler(t *testing.T) {
	for kind, g := range guarded {
		t.Run(kind, func(t *testing.T) {
			store := memstore.New()
			holder := hold(t, store, "user:42")
			busy := errors.New("busy")
			var told *reasons.Refusal
			handler := func(_ context.Context, refused *reasons.Refusal) error {
				if told = refused; refused.Reason == reasons.KeyInvalid {
					return busy
				}
				return status.Error(codes.Code(1503), "come again")
			}
			passed := make(seen, 3)
			c := serve(t, idle(t), locks(t, engine(t, store), g.rule(core.WithFailFast())).WithErrorHandler(handler), passed.options()...)
			err := g.send(bounded(t), c, "42")
			s := status.Convert(err)
			check(t, s.Code() == 1503 && s.Message() == "come again" && reason(t, err) == reasons.LockHeld, "refused: %v %v", err, s.Details())
			if after, ok := lockgrpc.RetryAfter(g.method, err); ok != (kind != "message") || ok && after <= 0 {
				t.Errorf("our client would repeat it: %v, %v", after, ok)
			}
			if told == nil || told.Rule != g.method || told.Key != "user:42" || !told.Again || told.Ran || told.RetryAfter <= 0 || told.RetryAfter > time.Minute || !errors.Is(told, core.ErrHeld) {
				t.Errorf("told %+v", told)
			}
			if inside := ruletest.Receive(t, "end", passed); !errors.Is(inside, core.ErrHeld) {
				t.Errorf("an outer interceptor sees %v", inside)
			}
			err = g.send(bounded(t), c, "")
			if inside := ruletest.Receive(t, "end", passed); status.Code(err) != codes.Unknown || reason(t, err) != reasons.KeyInvalid || told.Key != "" || !errors.Is(inside, busy) {
				t.Errorf("no key: %v, %+v, %v", err, told, inside)
			}
			wantNil(t, holder.Release(bounded(t)))
		})
	}
}
