package lockgrpc_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// TestRegistrar: a service that only gets a registrar runs under its rules, inside of the server's interceptors.
func TestRegistrar(t *testing.T) {
	for name, outer := range map[string]bool{"alone": false, "inside of interceptors": true} {
		t.Run(name, func(t *testing.T) {
			eng := memory(t)
			i := locks(t, eng,
				lockgrpc.Serialize(setStatus, "user:{user_id}"),
				lockgrpc.Serialize(watch, "group:{group_id}"))
			s := &server{
				setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
					return &testpb.SetStatusResponse{}, core.AssertHeld(ctx, core.Exclusive("user:1"))
				},
				watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
					if err := core.AssertHeld(stream.Context(), core.Exclusive("group:1")); err != nil {
						return err
					}
					return stream.Send(&testpb.Event{})
				},
			}
			var seen []string
			var opts []grpc.ServerOption
			if outer {
				opts = append(opts, grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
					seen = append(seen, info.FullMethod)
					if err := core.AssertHeld(ctx, core.Exclusive("user:1")); err == nil {
						t.Error("the rule is outside of the server's interceptor")
					}
					return next(ctx, req)
				}))
			}
			srv := grpc.NewServer(opts...)
			registrar := i.Registrar(srv)
			testpb.RegisterUsersServer(registrar, s)
			testpb.RegisterGroupsServer(registrar, s)
			if err := i.Check(srv); err != nil {
				t.Error(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- srv.Serve(listener) }()
			conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				conn.Close()
				srv.Stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			if _, err := testpb.NewUsersClient(conn).SetStatus(bounded(t), message("a", 1)); err != nil {
				t.Error(err)
			}
			events, err := testpb.NewGroupsClient(conn).Watch(bounded(t), &testpb.WatchRequest{GroupId: "1"})
			if err == nil {
				_, err = events.Recv()
			}
			if err != nil {
				t.Error(err)
			}
			if outer && len(seen) != 1 {
				t.Errorf("the interceptor saw %v", seen)
			}
			if len(testpb.Users_ServiceDesc.Methods) == 0 {
				t.Error("the descriptor has changed")
			}
		})
	}
}
