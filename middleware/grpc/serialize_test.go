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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

func online(user int64) *testpb.SetStatusRequest {
	return &testpb.SetStatusRequest{UserId: user, Status: testpb.Status_STATUS_ONLINE}
}

func TestCallsWithOneKeyTakeTurns(t *testing.T) {
	byTemplate := lockgrpc.Serialize(setStatus, "user:status:{user_id}")
	byFunction := lockgrpc.SerializeBy(setStatus, func(r *testpb.SetStatusRequest) string {
		return fmt.Sprint("user:status:", r.GetUserId())
	})
	for name, rule := range map[string]lockgrpc.Rule{"template": byTemplate, "function": byFunction} {
		t.Run(name, func(t *testing.T) {
			var inside atomic.Int32
			value := 0 // what the lock protects; the race detector looks too
			s := &server{setStatus: func(ctx context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
				if n := inside.Add(1); n > 1 {
					t.Errorf("%d handlers at a time", n)
				}
				defer inside.Add(-1)
				lease, ok := core.LeaseFrom(ctx)
				if !ok || lease.Key() != "user:status:42" || leaseSeen(ctx).Rule() != setStatus || lease.Token() == 0 {
					t.Errorf("lease: %v %+v", ok, lease)
				}
				value++
				return &testpb.SetStatusResponse{Text: r.GetStatus().String()}, nil
			}}
			c := serve(t, s, locks(t, memory(t, core.WithHooks(seeLeases)), rule))
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

func TestCallsWithDifferentKeysDoNotWait(t *testing.T) {
	var met sync.WaitGroup // both handlers have to be inside
	met.Add(2)
	s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		met.Done()
		met.Wait()
		return &testpb.SetStatusResponse{}, nil
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(setStatus, "user:{user_id}")))
	ctx := bounded(t)
	var calls sync.WaitGroup
	for user := range int64(2) {
		calls.Go(func() {
			if _, err := c.SetStatus(ctx, online(user+1)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

func TestKeyFromMetadata(t *testing.T) {
	s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		lease, _ := core.LeaseFrom(ctx)
		return &testpb.SetStatusResponse{Text: lease.Key()}, nil
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(setStatus, "user:{metadata.x-tenant}:{user_id}")))
	ctx := metadata.AppendToOutgoingContext(bounded(t), "X-Tenant", "acme:eu")
	resp, err := c.SetStatus(ctx, online(42))
	if err != nil || resp.GetText() != "user:acme%3Aeu:42" {
		t.Error(resp, err)
	}
}

func TestMethodWithoutRulePassesUntouched(t *testing.T) {
	s := &server{members: func(ctx context.Context, _ *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
		if _, ok := core.LeaseFrom(ctx); ok {
			t.Error("a lease without a rule")
		}
		return &testpb.AddMembersResponse{Size: 1}, nil
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(setStatus, "user:{user_id}")))
	if resp, err := c.AddMembers(bounded(t), &testpb.AddMembersRequest{}); err != nil || resp.GetSize() != 1 {
		t.Error(resp, err)
	}
}

// A client that goes away does not let the next one in: the handler may be
// writing.
func TestHeldUntilTheHandlerReturns(t *testing.T) {
	entered, leave := make(chan context.Context), make(chan struct{})
	first := true
	var inside atomic.Int32
	s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		if inside.Add(1) > 1 {
			t.Error("let in while the first handler ran")
		}
		defer inside.Add(-1)
		if first {
			first = false
			entered <- ctx
			<-leave
		}
		return &testpb.SetStatusResponse{}, nil
	}}
	eng := memory(t)
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}")))
	ctx, cancel := context.WithCancel(bounded(t))
	answer := make(chan error)
	go func() {
		_, err := c.SetStatus(ctx, online(42))
		answer <- err
	}()
	handler := wait(t, entered, "first call")
	cancel()
	if err := wait(t, answer, "answer"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	wait(t, handler.Done(), "cancel in the handler")
	if _, err := eng.TryAcquire(bounded(t), "user:42"); !errors.Is(err, core.ErrHeld) {
		t.Errorf("after the cancel: %v, want it held", err)
	}
	close(leave)
	if _, err := c.SetStatus(bounded(t), online(42)); err != nil {
		t.Error(err)
	}
}

// Whatever a handler returns is its own, also what looks like ours.
func TestHandlersErrorPassesUnchanged(t *testing.T) {
	detailed, err := status.New(codes.NotFound, "no user 42").WithDetails(&testpb.Group{Id: "g"})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []error{
		detailed.Err(),
		&core.HeldError{Key: "theirs"},
		fmt.Errorf("wrapped: %w", core.ErrLeaseLost),
		&core.KeyError{Key: "theirs", Reason: "is theirs"},
		context.Canceled,
	} {
		for _, rule := range []lockgrpc.Rule{
			lockgrpc.Serialize(setStatus, "user:{user_id}"),
			lockgrpc.Once(setStatus, "user:{user_id}"),
		} {
			interceptor := locks(t, memory(t), rule).Unary()
			info := &grpc.UnaryServerInfo{FullMethod: setStatus}
			response := &testpb.SetStatusResponse{Text: "half"}
			got, err := interceptor(bounded(t), online(42), info, func(context.Context, any) (any, error) { return response, own })
			if err != own || got != any(response) {
				t.Errorf("handler returned %v; the interceptor %v, %v", own, got, err)
			}
		}
	}
}

func TestLossIsAnErrorThoughTheHandlerSucceeded(t *testing.T) {
	errOwn := errors.New("own")
	for _, own := range []error{nil, errOwn} {
		for name, rule := range map[string]lockgrpc.Rule{
			"serialize": lockgrpc.Serialize(setStatus, "user:{user_id}"),
			"once":      lockgrpc.Once(setStatus, "user:{user_id}"),
		} {
			t.Run(fmt.Sprint(name, " ", own), func(t *testing.T) {
				store := memstore.New()
				s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
					steal(t, store, ctx)
					return &testpb.SetStatusResponse{}, own
				}}
				outside := make(seen, 1)
				c := serve(t, s, locks(t, engine(t, store), rule), grpc.ChainUnaryInterceptor(outside.unary))
				_, err := c.SetStatus(bounded(t), online(42))
				if status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
					t.Errorf("got %v, want ABORTED for LEASE_LOST", err)
				}
				if _, ok := detail[*errdetails.RetryInfo](err); ok {
					t.Error("told to retry what may be half done")
				}
				inside := <-outside
				if !errors.Is(inside, core.ErrLeaseLost) || own != nil && !errors.Is(inside, own) {
					t.Errorf("outer interceptors see %v", errors.Unwrap(inside))
				}
			})
		}
	}
}

// recovery is what every server has outermost.
func recovery(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "recovered: %v", p)
		}
	}()
	return handler(ctx, req)
}

func TestPanicFreesTheKeyAndGoesOn(t *testing.T) {
	for name, rule := range map[string]lockgrpc.Rule{
		"serialize": lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithFailFast()),
		"once":      lockgrpc.Once(setStatus, "user:{user_id}", core.WithFailFast()),
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
				if calls++; calls == 1 {
					panic("boom")
				}
				return &testpb.SetStatusResponse{Text: "ran"}, nil
			}}
			c := serve(t, s, locks(t, memory(t), rule), grpc.ChainUnaryInterceptor(recovery))
			_, err := c.SetStatus(bounded(t), online(42))
			if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != "recovered: boom" {
				t.Errorf("recovery saw %v", err)
			}
			if resp, err := c.SetStatus(bounded(t), online(42)); err != nil || resp.GetText() != "ran" {
				t.Errorf("after the panic: %v, %v", resp, err)
			}
		})
	}
}

// An interceptor that knows who calls comes before the lock and puts that into
// the metadata, so that no caller can take the keys of another.
func TestAuthenticationBeforeTheLock(t *testing.T) {
	auth := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		md = md.Copy()
		md.Set("x-user", "alice")
		return handler(metadata.NewIncomingContext(ctx, md), req)
	}
	s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		lease, _ := core.LeaseFrom(ctx)
		return &testpb.SetStatusResponse{Text: lease.Key()}, nil
	}}
	rule := lockgrpc.Serialize(setStatus, "user:{metadata.x-user}")
	c := serve(t, s, locks(t, memory(t), rule), grpc.ChainUnaryInterceptor(auth))
	forged := metadata.AppendToOutgoingContext(bounded(t), "x-user", "bob", "x-user", "carol")
	if resp, err := c.SetStatus(forged, online(42)); err != nil || resp.GetText() != "user:alice" {
		t.Error(resp, err)
	}
}

func TestRunsUnlockedOnlyWhereTheRuleSaysSo(t *testing.T) {
	outage := &core.UnavailableError{Op: "acquire", Err: errors.New("connection refused")}
	s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		_, leased := core.LeaseFrom(ctx)
		return &testpb.SetStatusResponse{Text: fmt.Sprint(leased)}, nil
	}}
	for _, rule := range []lockgrpc.Rule{
		lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithRunUnlocked()),
		lockgrpc.Once(setStatus, "user:{user_id}", core.WithRunUnlocked()),
	} {
		c := serve(t, s, locks(t, engine(t, refusing{memstore.New(), outage}), rule))
		if resp, err := c.SetStatus(bounded(t), online(42)); err != nil || resp.GetText() != "false" {
			t.Error(resp, err)
		}
	}
}

// refusing is a store that grants nothing.
type refusing struct {
	*memstore.Store
	err error
}

func (s refusing) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, s.err
}

func (s refusing) Begin(context.Context, driver.Request) (driver.Grant, *driver.Record, error) {
	return driver.Grant{}, nil, s.err
}
