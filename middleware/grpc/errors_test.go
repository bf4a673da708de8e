package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/keytmpl"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// ended gives the call a context that ends, from outside of the lock.
func ended(end func(context.Context) (context.Context, context.CancelFunc)) grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, cancel := end(ctx)
		defer cancel()
		return handler(ctx, req)
	})
}

func deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 20*time.Millisecond)
}

func pastDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, -time.Second)
}

func canceled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

// Every row of the design's table, over a connection.
func TestRefusals(t *testing.T) {
	const key = "user:42"
	type setting struct {
		store driver.Store             // default: a memstore
		hold  bool                     // another process has the key
		prior *testpb.SetStatusRequest // sent before
		close bool                     // the engine is closed before
		rules []core.CallOption        // of the rule
		once  bool                     // which rule
		outer grpc.ServerOption        // outside of the lock
	}
	secret := errors.New("secret: password of redis at 10.1.2.3")
	shortWait := []core.CallOption{core.WithMaxWait(time.Millisecond)}
	tests := []struct {
		name   string
		given  setting
		code   codes.Code
		reason string
		retry  bool
		is     error
	}{
		{"held, fail-fast", setting{hold: true, rules: []core.CallOption{core.WithFailFast()}}, codes.Aborted, reasons.LockHeld, true, core.ErrHeld},
		{"held, waited", setting{hold: true, rules: shortWait}, codes.Aborted, reasons.WaitTimeout, true, core.ErrWaitTimeout},
		{"first run under way, fail-fast", setting{once: true, hold: true, rules: []core.CallOption{core.WithFailFast()}}, codes.Aborted, reasons.LockHeld, true, core.ErrHeld},
		{"first run under way, waited", setting{once: true, hold: true, rules: shortWait}, codes.Aborted, reasons.WaitTimeout, true, core.ErrWaitTimeout},
		{"same id, other content", setting{once: true, prior: &testpb.SetStatusRequest{UserId: 42, Status: testpb.Status_STATUS_AWAY}}, codes.FailedPrecondition, reasons.FingerprintMismatch, false, core.ErrFingerprintMismatch},
		{"too many waiters", setting{store: refusing{memstore.New(), &core.TooManyWaitersError{Key: key, Limit: 3}}}, codes.ResourceExhausted, reasons.TooManyWaiters, true, core.ErrTooManyWaiters},
		{"store down", setting{store: refusing{memstore.New(), &core.UnavailableError{Op: "acquire", Err: secret}}}, codes.Unavailable, reasons.StoreUnavailable, true, core.ErrUnavailable},
		{"store down, once", setting{once: true, store: refusing{memstore.New(), &core.UnavailableError{Op: "acquire", Err: secret}}}, codes.Unavailable, reasons.StoreUnavailable, true, core.ErrUnavailable},
		{"engine closed", setting{close: true}, codes.Unavailable, reasons.Stopping, true, core.ErrClosed},
		{"record uncertain", setting{once: true, store: forgetful{memstore.New()}, rules: []core.CallOption{core.WithTTL(30 * time.Millisecond)}}, codes.Unavailable, reasons.OutcomeUnknown, true, core.ErrOutcomeUnknown},
		{"response not kept", setting{once: true, prior: online(42), rules: []core.CallOption{core.WithResultLimit(3)}}, codes.AlreadyExists, reasons.ResultNotKept, false, core.ErrResultNotKept},
		{"anything else", setting{store: refusing{memstore.New(), secret}}, codes.Internal, reasons.Internal, false, secret},
		{"caller's deadline", setting{hold: true, outer: ended(deadline)}, codes.DeadlineExceeded, "", false, context.DeadlineExceeded},
		{"caller's deadline, before", setting{outer: ended(pastDeadline)}, codes.DeadlineExceeded, "", false, context.DeadlineExceeded},
		{"caller's cancel", setting{outer: ended(canceled)}, codes.Canceled, "", false, context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := tt.given.store
			if store == nil {
				store = memstore.New()
			}
			eng := engine(t, store)
			rule := lockgrpc.Serialize(setStatus, "user:{user_id}", tt.given.rules...)
			if tt.given.once {
				rule = lockgrpc.Once(setStatus, "user:{user_id}", tt.given.rules...)
			}
			s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
				return &testpb.SetStatusResponse{Text: "done"}, nil
			}}
			outside := make(seen, 2)
			opts := []grpc.ServerOption{grpc.ChainUnaryInterceptor(outside.unary)}
			if tt.given.outer != nil {
				opts = append(opts, tt.given.outer)
			}
			c := serve(t, s, locks(t, eng, rule), opts...)
			private := []string{key, "secret"}
			if tt.given.hold {
				holder, err := engine(t, store).Acquire(bounded(t), key)
				if err != nil {
					t.Fatal(err)
				}
				defer holder.Release(context.Background())
				private = append(private, holder.Owner())
				if host, err := os.Hostname(); err == nil && len(host) > 3 {
					private = append(private, host)
				}
			}
			if tt.given.prior != nil {
				if _, err := c.SetStatus(bounded(t), tt.given.prior); err != nil {
					t.Fatal(err)
				}
				<-outside
			}
			if tt.given.close {
				if err := eng.Close(bounded(t)); err != nil {
					t.Fatal(err)
				}
			}

			_, err := c.SetStatus(bounded(t), online(42))

			if status.Code(err) != tt.code || reason(t, err) != tt.reason {
				t.Errorf("got %v, reason %q; want %v, %q", err, reason(t, err), tt.code, tt.reason)
			}
			if info, ok := detail[*errdetails.ErrorInfo](err); ok && info.GetMetadata()[lockgrpc.MethodKey] != setStatus {
				t.Errorf("the method is not named: %v", info)
			}
			retry, ok := detail[*errdetails.RetryInfo](err)
			if ok != tt.retry || ok && retry.GetRetryDelay().AsDuration() <= 0 {
				t.Errorf("RetryInfo %v, want one: %v", retry, tt.retry)
			}
			inside := <-outside
			if !errors.Is(inside, tt.is) {
				t.Errorf("outer interceptors see %v, want %v", inside, tt.is)
			}
			for _, told := range []string{
				prototext.Format(status.Convert(err).Proto()),
				// An interceptor may wrap what it gets, and the text with it.
				prototext.Format(status.Convert(fmt.Errorf("outer: %w", inside)).Proto()),
			} {
				for _, p := range private {
					if strings.Contains(told, p) {
						t.Errorf("the caller is told %q: %s", p, told)
					}
				}
			}
		})
	}
}

// forgetful never says whether it recorded anything.
type forgetful struct{ *memstore.Store }

func (forgetful) Complete(context.Context, driver.Grant, driver.Record, time.Duration) error {
	return &core.UnavailableError{Op: "complete", Err: errors.New("connection reset")}
}

// One more caller than may wait is refused, and those who wait are served.
func TestTooManyWaiters(t *testing.T) {
	store := memstore.New()
	eng := engine(t, store, core.WithMaxWaiters(1))
	holder, err := engine(t, store).Acquire(bounded(t), "user:42")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		return &testpb.SetStatusResponse{}, nil
	}}
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}")))
	ctx, answers := bounded(t), make(chan error, 2)
	for range cap(answers) {
		go func() {
			_, err := c.SetStatus(ctx, online(42))
			answers <- err
		}()
	}
	refused := wait(t, answers, "refusal")
	if status.Code(refused) != codes.ResourceExhausted || reason(t, refused) != reasons.TooManyWaiters {
		t.Error(refused)
	}
	if err := holder.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := wait(t, answers, "answer"); err != nil {
		t.Error(err)
	}
}

func TestRetryInfoIsWhatTheStoreKnows(t *testing.T) {
	store := refusing{memstore.New(), &core.HeldError{Key: "user:42", RetryAfter: 70 * time.Millisecond}}
	c := serve(t, &server{}, locks(t, engine(t, store), lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithFailFast())))
	_, err := c.SetStatus(bounded(t), online(42))
	if retry, _ := detail[*errdetails.RetryInfo](err); retry.GetRetryDelay().AsDuration() != 70*time.Millisecond {
		t.Errorf("told to retry in %v", retry)
	}
}

// The answer to a request that makes no key names the placeholder, and not the
// value.
func TestInvalidKeys(t *testing.T) {
	long := strings.Repeat("private", 100)
	byFunction := func(key string) lockgrpc.Rule {
		return lockgrpc.SerializeBy(addMembers, func(*testpb.AddMembersRequest) string { return key })
	}
	tests := []struct {
		name        string
		rule        lockgrpc.Rule
		request     *testpb.AddMembersRequest
		header      []string
		field       string
		description string
		is          error
	}{
		{
			"field not set", lockgrpc.Serialize(addMembers, "group:{group.id}"),
			&testpb.AddMembersRequest{Group: &testpb.Group{}},
			nil, "group.id", "value is missing or empty", keytmpl.ErrMissingValue,
		},
		{
			"message not set", lockgrpc.Once(addMembers, "group:{group.tenant.name|hash}"), nil,
			nil, "group.tenant.name", "value is missing or empty", keytmpl.ErrMissingValue,
		},
		{
			"value too long", lockgrpc.Serialize(addMembers, "group:{group.id}"),
			&testpb.AddMembersRequest{Group: &testpb.Group{Id: long}},
			nil, "group.id", "key is longer than 512 bytes", keytmpl.ErrTooLong,
		},
		{
			"no metadata", lockgrpc.Serialize(addMembers, "group:{metadata.x-tenant}"), nil,
			nil, "metadata.x-tenant", "value is missing or empty", keytmpl.ErrMissingValue,
		},
		{
			"metadata twice", lockgrpc.Serialize(addMembers, "group:{metadata.x-tenant}"), nil,
			[]string{"x-tenant", "private", "x-tenant", "private"},
			"metadata.x-tenant", "more than one value", keytmpl.ErrManyValues,
		},
		{"function without key", byFunction(""), nil, nil, "", "", core.ErrInvalidKey},
		{"function with an invalid key", byFunction("private\n"), nil, nil, "", "", core.ErrInvalidKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{members: func(context.Context, *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
				t.Error("the handler ran")
				return nil, nil
			}}
			outside := make(seen, 1)
			c := serve(t, s, locks(t, memory(t), tt.rule), grpc.ChainUnaryInterceptor(outside.unary))
			ctx := metadata.AppendToOutgoingContext(bounded(t), tt.header...)
			_, err := c.AddMembers(ctx, tt.request)
			if status.Code(err) != codes.InvalidArgument || reason(t, err) != reasons.KeyInvalid {
				t.Errorf("got %v", err)
			}
			bad, _ := detail[*errdetails.BadRequest](err)
			if v := bad.GetFieldViolations(); tt.field != "" &&
				(len(v) != 1 || v[0].GetField() != tt.field || v[0].GetDescription() != tt.description) {
				t.Errorf("violations: %v", v)
			}
			if inside := <-outside; !errors.Is(inside, tt.is) {
				t.Errorf("outer interceptors see %v, want %v", inside, tt.is)
			}
			if told := prototext.Format(status.Convert(err).Proto()); strings.Contains(told, "private") {
				t.Errorf("the caller is told the value: %s", told)
			}
		})
	}
}

// An interceptor between the codec and the lock that changes the type of a
// request is the server's fault.
func TestRequestOfAnotherType(t *testing.T) {
	for name, rule := range map[string]lockgrpc.Rule{
		"template": lockgrpc.Serialize(setStatus, "user:{user_id}"),
		"function": lockgrpc.SerializeBy(setStatus, func(*testpb.SetStatusRequest) string { return "k" }),
	} {
		for _, other := range []any{&testpb.Event{}, "text", nil} {
			interceptor := locks(t, memory(t), rule).Unary()
			_, err := interceptor(bounded(t), other, &grpc.UnaryServerInfo{FullMethod: setStatus}, nil)
			if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != "internal error" {
				t.Errorf("%s, %T: %v", name, other, err)
			}
		}
	}
}

// A codec may make dynamic messages although there is generated code. A
// template reads them; a key function can't.
func TestDynamicRequest(t *testing.T) {
	request := dynamicpb.NewMessage(online(42).ProtoReflect().Descriptor())
	proto.Merge(request, online(42))
	call := func(rule lockgrpc.Rule) error {
		_, err := locks(t, memory(t), rule).Unary()(bounded(t), request, &grpc.UnaryServerInfo{FullMethod: setStatus},
			func(ctx context.Context, _ any) (any, error) {
				if lease, _ := core.LeaseFrom(ctx); lease.Key() != "user:42" {
					t.Errorf("key %q", lease.Key())
				}
				return nil, nil
			})
		return err
	}
	if err := call(lockgrpc.Serialize(setStatus, "user:{user_id}")); err != nil {
		t.Error(err)
	}
	err := call(lockgrpc.SerializeBy(setStatus, func(*testpb.SetStatusRequest) string { return "user:42" }))
	if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != "internal error" {
		t.Error(err)
	}
}
