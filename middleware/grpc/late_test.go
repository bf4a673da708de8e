package lockgrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// TestLate: until the engine has a store, calls with a rule are refused, others run, and nothing runs
// unlocked unless it was asked for.
func TestLate(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		eng, err := core.NewLate()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(context.Background()) })
		var opts []core.CallOption
		if unlocked {
			opts = append(opts, core.WithRunUnlocked())
		}
		guard := locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}", opts...), lockgrpc.Serialize(watch, "group:{group_id}"))
		held := make(chan bool, 1)
		conn := start(t, guard, func(srv *grpc.Server) {
			s := &server{
				setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
					_, ok := core.LeaseFrom(ctx)
					held <- ok
					return &testpb.SetStatusResponse{}, nil
				},
				members: func(context.Context, *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
					return &testpb.AddMembersResponse{}, nil
				},
				watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
					return stream.Send(&testpb.Event{})
				},
			}
			testpb.RegisterUsersServer(srv, s)
			testpb.RegisterGroupsServer(srv, s)
		})
		users, groups := testpb.NewUsersClient(conn), testpb.NewGroupsClient(conn)
		_, err = users.SetStatus(bounded(t), message("a", 1))
		if unlocked {
			if err != nil || <-held {
				t.Errorf("told to run unlocked: %v", err)
			}
		} else {
			if status.Code(err) != codes.Unavailable || reason(t, err) != reasons.StoreUnavailable {
				t.Errorf("without a store: %v", err)
			}
			if _, again := lockgrpc.RetryAfter(setStatus, err); !again {
				t.Error("our client would not repeat it")
			}
		}
		events, err := groups.Watch(bounded(t), &testpb.WatchRequest{GroupId: "1"})
		if err == nil {
			_, err = events.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("a stream without a store: %v", err)
		}
		if _, err := groups.AddMembers(bounded(t), &testpb.AddMembersRequest{}); err != nil {
			t.Errorf("a method without a rule: %v", err)
		}
		if err := eng.Bind(memstore.New()); err != nil {
			t.Fatal(err)
		}
		if _, err := users.SetStatus(bounded(t), message("a", 1)); err != nil || !<-held {
			t.Errorf("with a store: %v", err)
		}
	}
}
