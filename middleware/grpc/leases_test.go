package lockgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/experimental/grpccarry"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// carrying is an engine of a caller, and a connection that carries its leases to s, in another process
// that accepts them. What is forged, and who did not opt in, is in grpccarry's tests and core's.
func carrying(t *testing.T, s *server, rules ...lockgrpc.Rule) (*core.Engine, client) {
	store := memstore.New()
	guard := locks(t, engine(t, store.Peer(), core.WithHooks(seeLeases)), rules...)
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpccarry.UnaryServer, guard.Unary()),
		grpc.ChainStreamInterceptor(grpccarry.StreamServer, guard.Stream()))
	testpb.RegisterUsersServer(srv, s)
	testpb.RegisterGroupsServer(srv, s)
	return engine(t, store), dial(t, listen(t, srv),
		grpc.WithChainUnaryInterceptor(grpccarry.UnaryClient), grpc.WithChainStreamInterceptor(grpccarry.StreamClient))
}

// A service holds keys, each in a mode, and calls another one, which takes the same keys.
func TestCallUnderTheCallersLease(t *testing.T) {
	var at int
	caller, c := carrying(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		at = leaseSeen(ctx).Depth()
		return &testpb.SetStatusResponse{}, nil
	}}, lockgrpc.Serialize(setStatus, "user:{user_id}"), lockgrpc.Once(addMembers, "user:{group.id}"))
	set := []core.Claim{core.Exclusive("user:42"), core.Shared("user:43"), core.Exclusive("user:44")}
	err := caller.DoAll(bounded(t), set, func(ctx context.Context) error {
		for user, depth := range map[int64]int{42: 2, 44: 2, 45: 1} {
			if _, err := c.SetStatus(ctx, online(user)); err != nil || at != depth {
				t.Errorf("user %d: at depth %d, %v; want %d", user, at, err, depth)
			}
		}
		// It would wait for its own caller.
		_, err := c.SetStatus(ctx, online(43))
		_, once := c.AddMembers(ctx, &testpb.AddMembersRequest{Group: &testpb.Group{Id: "42"}})
		for _, err := range []error{err, once} {
			if status.Code(err) != codes.Internal || reason(t, err) != reasons.Internal {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCalleeEndsWithItsCaller(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	caller, c := carrying(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		left <- context.Cause(ctx)
		return &testpb.SetStatusResponse{}, nil
	}}, lockgrpc.Serialize(setStatus, "user:{user_id}"))
	lease, err := caller.Acquire(bounded(t), "user:42", core.WithTTL(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		// The caller's process loses its lease, and does not say so.
		_, err := c.SetStatus(context.WithoutCancel(lease.Context()), online(42))
		answer <- err
	}()
	wait(t, entered, "call")
	if err := lease.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	err = wait(t, left, "end of the handler")
	if lost := (*core.LeaseLostError)(nil); !errors.As(err, &lost) || lost.Reason != driver.LossOuter {
		t.Error(err)
	}
	if err := wait(t, answer, "answer"); reason(t, err) != reasons.LeaseLost {
		t.Error(err)
	}
}

func TestStreamUnderTheCallersLease(t *testing.T) {
	caller, c := carrying(t, &server{
		watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
			if at := leaseSeen(stream.Context()).Depth(); at != 2 {
				t.Errorf("watch at depth %d", at)
			}
			return stream.Send(&testpb.Event{})
		},
		chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
			event, err := stream.Recv()
			if at := leaseSeen(stream.Context()).Depth(); at != 2 {
				t.Errorf("message at depth %d", at)
			}
			return errors.Join(err, stream.Send(event))
		},
	}, lockgrpc.Serialize(watch, "group:{group_id}", core.WithFailFast()), lockgrpc.SerializeMessages(chat, "group:{group_id}", core.WithFailFast()))
	err := caller.Do(bounded(t), "group:7", func(ctx context.Context) error {
		if err := watchOne(ctx, c, "7"); err != nil {
			return err
		}
		chatting, err := c.Chat(ctx)
		if err != nil {
			return err
		}
		say(t, chatting, "7")
		if _, err := chatting.Recv(); err != nil {
			return err
		}
		if _, err := chatting.Recv(); err != io.EOF {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
