package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
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
			handler := ruletest.Receive(t, "call", entered)
			cancel()
			if err := ruletest.Receive(t, "answer", answer); status.Code(err) != codes.Canceled {
				t.Error(err)
			}
			ruletest.Receive(t, "cancel in the handler", handler.Done())
			if !isHeld(t, eng, "user:42") {
				t.Error("free while the handler runs")
			}
			close(leave)
			free(t, eng, "user:42")
		})
	}
}

// Whatever a handler returns is its own, also what looks like ours; and a method without a rule is left alone.
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
			check(t, err == own && got == any(response), "%s: handler returned %v; the interceptor %v, %v", name, own, got, err)
		}
	}
	own := detailed.Err()
	stream := &fakeStream{ctx: bounded(t)}
	streams := locks(t, memory(t), lockgrpc.Serialize(chat, "chat"), lockgrpc.SerializeMessages(importAll, "k")).Stream()
	for _, method := range []string{chat, importAll, watch, strings.TrimPrefix(chat, "/")} { // older servers take a path without the slash
		got := streams(nil, stream, &grpc.StreamServerInfo{FullMethod: method}, func(_ any, s grpc.ServerStream) error {
			check(t, (s == grpc.ServerStream(stream)) == (method == watch), "%s gets %T", method, s)
			return own
		})
		check(t, got == own, "%s: the handler's error came back as %v", method, got)
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

// caller is the context's key of who calls.
type caller struct{}

// asAnn is what authentication does: it puts who calls into the context, and into the metadata, so
// that no caller can take the keys of another.
func asAnn(ctx context.Context) (context.Context, context.CancelFunc) {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()
	md.Set("x-user", "ann")
	return context.WithValue(metadata.NewIncomingContext(ctx, md), caller{}, "ann"), func() {}
}

// A rule has what interceptors outside of it put into the context, for every kind of method, and so has the handler. A
// panic goes on to recovery, and the key is free.
func TestOrderOfInterceptors(t *testing.T) {
	const key = "{metadata.x-user}"
	for kind, rule := range map[string]lockgrpc.Rule{
		"call": lockgrpc.Serialize(setStatus, key), "once": lockgrpc.Once(setStatus, key),
		"stream": lockgrpc.Serialize(importAll, key), "message": lockgrpc.SerializeMessages(importAll, key),
	} {
		eng := memory(t)
		c := serve(t, working(func(ctx context.Context) error {
			if held := claimsOf(ctx); held != "exclusive ann" || ctx.Value(caller{}) != "ann" {
				t.Errorf("%s: held %q, called by %v", kind, held, ctx.Value(caller{}))
			}
			panic("boom")
		}), locks(t, eng, rule), slices.Concat(recovery, outside(asAnn))...)
		ctx := metadata.AppendToOutgoingContext(bounded(t), "x-user", "forged", "x-user", "too")
		if err := guarded[kind].send(ctx, c, "42"); status.Convert(err).Message() != "recovered: boom" {
			t.Errorf("%s: %v", kind, err)
		}
		free(t, eng, "ann")
	}
}

// A service that only gets a registrar runs under its rules, inside of the server's interceptors, if there are any.
func TestRegistrar(t *testing.T) {
	for name, opts := range map[string][]grpc.ServerOption{"alone": nil, "inside of interceptors": outside(asAnn)} {
		t.Run(name, func(t *testing.T) {
			check := func(ctx context.Context, key string) error {
				if by := ctx.Value(caller{}); (by == "ann") != (opts != nil) {
					t.Errorf("called by %v", by)
				}
				return core.AssertHeld(ctx, core.Exclusive(key))
			}
			s := &server{
				setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
					return &testpb.SetStatusResponse{}, check(ctx, "user:1")
				},
				watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
					if err := check(stream.Context(), "group:1"); err != nil {
						return err
					}
					return stream.Send(&testpb.Event{})
				},
			}
			i := locks(t, memory(t), lockgrpc.Serialize(setStatus, "user:{user_id}"), lockgrpc.Serialize(watch, "group:{group_id}"))
			srv := grpc.NewServer(opts...)
			testpb.RegisterUsersServer(i.Registrar(srv), s)
			testpb.RegisterGroupsServer(i.Registrar(srv), s)
			wantNil(t, i.Check(srv))
			c := dial(t, listen(t, srv))
			wantNil(t, checktest.ErrorOf(c.SetStatus(bounded(t), online(1))))
			wantNil(t, watchOne(bounded(t), c, "1"))
		})
	}
}
