package lockgrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// A service that only gets a registrar runs under its rules, inside of the server's interceptors, if
// there are any.
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
			if err := i.Check(srv); err != nil {
				t.Error(err)
			}
			c := dial(t, listen(t, srv))
			if _, err := c.SetStatus(bounded(t), online(1)); err != nil {
				t.Error(err)
			}
			if err := watchOne(bounded(t), c, "1"); err != nil {
				t.Error(err)
			}
		})
	}
}
