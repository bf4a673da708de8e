package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

func online(user int64) *testpb.SetStatusRequest {
	return &testpb.SetStatusRequest{UserId: user, Status: testpb.Status_STATUS_ONLINE}
}

// A client that goes away does not let the next one in: the handler may be writing.
func TestHeldUntilTheHandlerReturns(t *testing.T) {
	for kind, g := range guarded {
		t.Run(kind, func(t *testing.T) {
			eng := memory(t)
			entered, leave := make(chan context.Context), make(chan struct{})
			c := serve(t, working(func(ctx context.Context) error {
				entered <- ctx
				<-leave
				return nil
			}), locks(t, eng, g.rule()))
			ctx, cancel := context.WithCancel(bounded(t))
			answer := make(chan error)
			go func() { answer <- g.send(ctx, c, "42") }()
			handler := wait(t, entered, "call")
			cancel()
			if err := wait(t, answer, "answer"); status.Code(err) != codes.Canceled {
				t.Error(err)
			}
			wait(t, handler.Done(), "cancel in the handler")
			if !isHeld(t, eng, "user:42") {
				t.Error("free while the handler runs")
			}
			close(leave)
			free(t, eng, "user:42")
		})
	}
}

// Whatever a handler returns is its own, also what looks like ours; and a method without a rule is
// left alone.
func TestHandlersErrorPassesUnchanged(t *testing.T) {
	detailed, err := status.New(codes.NotFound, "no user 42").WithDetails(&testpb.Group{Id: "g"})
	must(t, err)
	rules := map[string]lockgrpc.Rule{
		"serialize": guarded["call"].rule(), "once": guarded["once"].rule(), "another method's": lockgrpc.Serialize(addMembers, "k"),
	}
	for _, own := range []error{
		detailed.Err(),
		&core.HeldError{Key: "theirs"},
		fmt.Errorf("wrapped: %w", core.ErrLeaseLost),
		context.Canceled,
	} {
		for name, rule := range rules {
			interceptor := locks(t, memory(t), rule).Unary()
			info := &grpc.UnaryServerInfo{FullMethod: setStatus}
			response := &testpb.SetStatusResponse{Text: "half"}
			got, err := interceptor(bounded(t), online(42), info, func(ctx context.Context, _ any) (any, error) {
				if held := claimsOf(ctx); (held == "") != (name == "another method's") {
					t.Errorf("%s: held %q", name, held)
				}
				return response, own
			})
			if err != own || got != any(response) {
				t.Errorf("%s: handler returned %v; the interceptor %v, %v", name, own, got, err)
			}
		}
	}
	own := detailed.Err()
	stream := &fakeStream{ctx: bounded(t)}
	streams := locks(t, memory(t), lockgrpc.Serialize(chat, "chat"), lockgrpc.SerializeMessages(importAll, "k")).Stream()
	for _, method := range []string{chat, importAll, watch} {
		got := streams(nil, stream, &grpc.StreamServerInfo{FullMethod: method}, func(_ any, s grpc.ServerStream) error {
			if (s == grpc.ServerStream(stream)) != (method == watch) {
				t.Errorf("%s gets %T", method, s)
			}
			return own
		})
		if got != own {
			t.Errorf("%s: the handler's error came back as %v", method, got)
		}
	}
}

// A lease that is lost unnoticed while the handler is at work is found when its turn ends.
func TestLossIsAnErrorThoughTheHandlerSucceeded(t *testing.T) {
	for _, own := range []error{nil, errors.New("own")} {
		for kind, g := range guarded {
			store, passed := memstore.New(), make(seen, 1)
			c := serve(t, working(func(ctx context.Context) error {
				steal(t, store, ctx)
				return own
			}), locks(t, engine(t, store), g.rule()), passed.options()...)
			err := g.send(bounded(t), c, "42")
			if status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
				t.Errorf("%s, %v: got %v, want ABORTED for LEASE_LOST", kind, own, err)
			}
			if _, ok := detail[*errdetails.RetryInfo](err); ok {
				t.Errorf("%s, %v: told to retry what may be half done", kind, own)
			}
			if inside := <-passed; !errors.Is(inside, core.ErrLeaseLost) || own != nil && !errors.Is(inside, own) {
				t.Errorf("%s, %v: outer interceptors see %v", kind, own, errors.Unwrap(inside))
			}
		}
	}
}
