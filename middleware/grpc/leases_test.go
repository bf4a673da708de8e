package lockgrpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/experimental/carry"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/experimental/grpccarry"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// A service that holds a key and calls another one, which takes the same key.
// They share a store.
type services struct {
	caller, callee *core.Engine
	// Connections to the callee: of a client that carries leases, and of one that
	// does not; to a server that accepts them, and to one that does not.
	both, carries, accepts, neither client
}

func newServices(t *testing.T, s *server, rules ...lockgrpc.Rule) *services {
	store := memstore.New()
	all := &services{
		caller: engine(t, store, core.WithMaxWait(200*time.Millisecond), core.WithHooks(seeLeases)),
		callee: engine(t, store.Peer(), core.WithMaxWait(200*time.Millisecond), core.WithHooks(seeLeases)),
	}
	register := func(srv *grpc.Server) {
		testpb.RegisterUsersServer(srv, s)
		testpb.RegisterGroupsServer(srv, s)
	}
	believing := start(t, locks(t, all.callee, rules...), register,
		grpc.ChainUnaryInterceptor(grpccarry.UnaryServer),
		grpc.ChainStreamInterceptor(grpccarry.StreamServer))
	deaf := start(t, locks(t, all.callee, rules...), register)
	carrying := func(to *grpc.ClientConn) client {
		conn, err := grpc.NewClient(to.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithChainUnaryInterceptor(grpccarry.UnaryClient),
			grpc.WithChainStreamInterceptor(grpccarry.StreamClient))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return clientOf(conn)
	}
	all.both, all.carries, all.accepts, all.neither = carrying(believing), carrying(deaf), clientOf(believing), clientOf(deaf)
	return all
}

func clientOf(conn *grpc.ClientConn) client {
	return client{testpb.NewUsersClient(conn), testpb.NewGroupsClient(conn)}
}

// depth answers with how deep its lease is nested, and with what token.
func depth(ctx context.Context) (int, uint64) {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return 0, 0
	}
	return leaseSeen(ctx).Depth(), lease.Token()
}

func TestCallUnderTheCallersLease(t *testing.T) {
	var at int
	var token uint64
	s := newServices(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		at, token = depth(ctx)
		return &testpb.SetStatusResponse{}, nil
	}}, lockgrpc.Serialize(setStatus, "user:{user_id}"))

	err := s.caller.Do(bounded(t), "user:42", func(ctx context.Context) error {
		if _, err := s.both.SetStatus(ctx, online(42)); err != nil || at != 2 {
			t.Errorf("at depth %d, %v", at, err)
		}
		if lease, _ := core.LeaseFrom(ctx); token != lease.Token() {
			t.Errorf("token %d, want %d", token, lease.Token())
		}
		// A gateway that copies the metadata of its own caller, who has no lease.
		copied := metadata.AppendToOutgoingContext(ctx, carry.Header, "from outside", "other", "kept")
		if _, err := s.both.SetStatus(copied, online(42)); err != nil || at != 2 {
			t.Errorf("at depth %d, %v", at, err)
		}
		for name, c := range map[string]client{"only the client": s.carries, "only the server": s.accepts, "neither": s.neither} {
			if _, err := c.SetStatus(ctx, online(42)); reason(t, err) != reasons.WaitTimeout {
				t.Errorf("%s opted in: %v", name, err)
			}
		}
		// Another key has nothing to do with it.
		if _, err := s.both.SetStatus(ctx, online(43)); err != nil || at != 1 {
			t.Errorf("at depth %d, %v", at, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	free(t, s.caller, "user:42")
}

// The caller has a set, in modes of its own; the callee takes parts of it.
func TestCallUnderAPartOfTheCallersSet(t *testing.T) {
	at := 0
	s := newServices(t, &server{
		setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			at, _ = depth(ctx)
			return &testpb.SetStatusResponse{}, nil
		},
		members: func(context.Context, *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
			return &testpb.AddMembersResponse{}, nil
		},
	}, lockgrpc.Serialize(setStatus, "user:{user_id}"), lockgrpc.Once(addMembers, "user:{group.id}"))
	set := []core.Claim{core.Exclusive("user:42"), core.Shared("user:43"), core.Exclusive("user:44")}
	err := s.caller.DoAll(bounded(t), set, func(ctx context.Context) error {
		for _, user := range []int64{42, 44} {
			if _, err := s.both.SetStatus(ctx, online(user)); err != nil || at != 2 {
				t.Errorf("user %d: at depth %d, %v", user, at, err)
			}
		}
		// It would wait for its own caller.
		_, err := s.both.SetStatus(ctx, online(43))
		_, once := s.both.AddMembers(ctx, &testpb.AddMembersRequest{Group: &testpb.Group{Id: "42"}})
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

// A caller that forges what it carries, or repeats what was true before, waits like any other.
func TestForgedMetadata(t *testing.T) {
	s := newServices(t, &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		return &testpb.SetStatusResponse{}, nil
	}}, lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithFailFast()))
	ctx := bounded(t)
	call := func(said ...string) error {
		md := metadata.MD{carry.Header: said}
		_, err := s.accepts.SetStatus(metadata.NewOutgoingContext(ctx, md), online(42))
		return err
	}
	first, err := s.caller.Acquire(ctx, "user:42")
	if err != nil {
		t.Fatal(err)
	}
	replayed := carry.Leases(first.Context())
	if err := call(replayed); err != nil {
		t.Errorf("while it is true: %v", err)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	holder, err := s.caller.Acquire(ctx, "user:42")
	if err != nil {
		t.Fatal(err)
	}
	truth := carry.Leases(holder.Context())
	fields := strings.Split(truth, ";")
	for name, said := range map[string][]string{
		"replayed":     {replayed},
		"random owner": {strings.Replace(truth, fields[0][len(fields[0])-32:], strings.Repeat("0", 32), 1)},
		"old token":    {strings.Replace(truth, ";"+fields[1]+";", ";1;", 1)},
		"other mode":   {fields[0] + ";" + fields[1] + ";" + fields[2] + ";s" + fields[3][1:]},
		"nonsense":     {"let me in"},
		"too long":     {truth + "," + strings.Repeat("x", 9<<10)},
		"nothing":      {},
	} {
		if err := call(said...); reason(t, err) != reasons.LockHeld {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := call(replayed, truth); err != nil { // on two lines
		t.Error(err)
	}
	if err := holder.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestCalleeEndsWithItsCaller(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	s := newServices(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		left <- context.Cause(ctx)
		return &testpb.SetStatusResponse{}, nil
	}}, lockgrpc.Serialize(setStatus, "user:{user_id}"))
	lease, err := s.caller.Acquire(bounded(t), "user:42", core.WithTTL(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	call := func(ctx context.Context) {
		go func() {
			_, err := s.both.SetStatus(ctx, online(42))
			answer <- err
		}()
		wait(t, entered, "call")
	}

	ctx, cancel := context.WithCancel(lease.Context())
	call(ctx)
	cancel()
	if err := wait(t, left, "end of the handler"); errors.Is(err, core.ErrLeaseLost) {
		t.Error(err)
	}
	if err := wait(t, answer, "answer"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}

	// The caller's process loses its lease, and does not say so.
	call(context.WithoutCancel(lease.Context()))
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
	s := newServices(t, &server{
		watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
			if at, _ := depth(stream.Context()); at != 2 {
				t.Errorf("watch at depth %d", at)
			}
			return stream.Send(&testpb.Event{})
		},
		chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
			event, err := stream.Recv()
			if at, _ := depth(stream.Context()); at != 2 {
				t.Errorf("message at depth %d", at)
			}
			return errors.Join(err, stream.Send(event))
		},
	}, lockgrpc.Serialize(watch, "group:{group_id}", core.WithFailFast()), lockgrpc.SerializeMessages(chat, "group:{group_id}", core.WithFailFast()))
	err := s.caller.Do(bounded(t), "group:7", func(ctx context.Context) error {
		watching, err := s.both.Watch(ctx, &testpb.WatchRequest{GroupId: "7"})
		if err != nil {
			return err
		}
		if _, err := watching.Recv(); err != nil {
			return err
		}
		if _, err := watching.Recv(); err != io.EOF {
			t.Error(err)
		}
		chatting, err := s.both.Chat(ctx)
		if err != nil {
			return err
		}
		if err := chatting.Send(&testpb.Event{GroupId: "7"}); err != nil {
			return err
		}
		if _, err := chatting.Recv(); err != nil {
			return err
		}
		if _, err := chatting.Recv(); err != io.EOF {
			t.Error(err)
		}
		refused, err := s.neither.Watch(ctx, &testpb.WatchRequest{GroupId: "7"})
		if err != nil {
			return err
		}
		if _, err := refused.Recv(); reason(t, err) != reasons.LockHeld {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
