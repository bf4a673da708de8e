package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// unaryRules are what most tests of unary methods are about.
func unaryRules(opts ...core.CallOption) map[string]lockgrpc.Rule {
	return map[string]lockgrpc.Rule{
		"serialize": lockgrpc.Serialize(setStatus, "user:{user_id}", opts...),
		"once":      lockgrpc.Once(setStatus, "user:{user_id}", opts...),
	}
}

func TestCallsWithOneKeyTakeTurns(t *testing.T) {
	byFunction := lockgrpc.SerializeBy(setStatus, func(r *testpb.SetStatusRequest) string {
		return fmt.Sprint("user:", r.GetUserId())
	})
	for name, rule := range map[string]lockgrpc.Rule{"template": unaryRules()["serialize"], "function": byFunction} {
		t.Run(name, func(t *testing.T) {
			var inside atomic.Int32
			value := 0 // what the lock protects; the race detector looks too
			s := &server{setStatus: func(ctx context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
				if n := inside.Add(1); n > 1 {
					t.Errorf("%d handlers at a time", n)
				}
				defer inside.Add(-1)
				if held := claimsOf(ctx); held != "exclusive user:42" {
					t.Errorf("held %q", held)
				}
				value++
				return &testpb.SetStatusResponse{Text: r.GetStatus().String()}, nil
			}}
			c := serve(t, s, locks(t, memory(t), rule))
			ctx := bounded(t)
			var calls sync.WaitGroup
			for range 20 {
				calls.Go(func() {
					resp, err := c.SetStatus(ctx, online(42))
					if err != nil || resp.GetText() != "STATUS_ONLINE" {
						t.Error(resp, err)
					}
				})
			}
			calls.Wait()
			if value != 20 {
				t.Errorf("%d calls were served", value)
			}
		})
	}
}

// A client that goes away does not let the next one in: the handler may be
// writing.
func TestHeldUntilTheHandlerReturns(t *testing.T) {
	for _, name := range []string{"call", "stream"} {
		t.Run(name, func(t *testing.T) {
			eng := memory(t)
			entered, leave := make(chan context.Context), make(chan struct{})
			work := func(ctx context.Context) {
				entered <- ctx
				<-leave
			}
			c := serve(t, &server{
				setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
					work(ctx)
					return nil, nil
				},
				watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
					work(stream.Context())
					return nil
				},
			}, locks(t, eng, lockgrpc.Serialize(setStatus, "k"), lockgrpc.Serialize(watch, "k")))
			ctx, cancel := context.WithCancel(bounded(t))
			answer := make(chan error)
			go func() {
				if name == "stream" {
					answer <- watchOne(ctx, c, "7")
					return
				}
				_, err := c.SetStatus(ctx, online(42))
				answer <- err
			}()
			handler := wait(t, entered, "call")
			cancel()
			if err := wait(t, answer, "answer"); status.Code(err) != codes.Canceled {
				t.Error(err)
			}
			wait(t, handler.Done(), "cancel in the handler")
			if !isHeld(t, eng, "k") {
				t.Error("free while the handler runs")
			}
			close(leave)
			free(t, eng, "k")
		})
	}
}

// Whatever a handler returns is its own, also what looks like ours; and a method without a rule is
// left alone.
func TestHandlersErrorPassesUnchanged(t *testing.T) {
	detailed, err := status.New(codes.NotFound, "no user 42").WithDetails(&testpb.Group{Id: "g"})
	if err != nil {
		t.Fatal(err)
	}
	rules := unaryRules()
	rules["another method's"] = lockgrpc.Serialize(addMembers, "k")
	for _, own := range []error{
		detailed.Err(),
		&core.HeldError{Key: "theirs"},
		fmt.Errorf("wrapped: %w", core.ErrLeaseLost),
		&core.KeyError{Key: "theirs", Reason: "is theirs"},
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
	streams := locks(t, memory(t), lockgrpc.Serialize(chat, "chat")).Stream()
	for _, method := range []string{chat, watch} {
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

func TestLossIsAnErrorThoughTheHandlerSucceeded(t *testing.T) {
	errOwn := errors.New("own")
	for _, own := range []error{nil, errOwn} {
		for name, rule := range unaryRules() {
			t.Run(fmt.Sprint(name, " ", own), func(t *testing.T) {
				store := memstore.New()
				s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
					steal(t, store, ctx)
					return &testpb.SetStatusResponse{}, own
				}}
				passed := make(seen, 1)
				c := serve(t, s, locks(t, engine(t, store), rule), grpc.ChainUnaryInterceptor(passed.unary))
				_, err := c.SetStatus(bounded(t), online(42))
				if status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
					t.Errorf("got %v, want ABORTED for LEASE_LOST", err)
				}
				if _, ok := detail[*errdetails.RetryInfo](err); ok {
					t.Error("told to retry what may be half done")
				}
				inside := <-passed
				if !errors.Is(inside, core.ErrLeaseLost) || own != nil && !errors.Is(inside, own) {
					t.Errorf("outer interceptors see %v", errors.Unwrap(inside))
				}
			})
		}
	}
}

func TestLossOfAStreamThatSucceeded(t *testing.T) {
	store := memstore.New()
	c := serve(t, &server{watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
		steal(t, store, stream.Context())
		return nil
	}}, locks(t, engine(t, store), lockgrpc.Serialize(watch, "group:{group_id}")))
	if err := watchOne(bounded(t), c, "7"); reason(t, err) != reasons.LeaseLost {
		t.Error(err)
	}
}
