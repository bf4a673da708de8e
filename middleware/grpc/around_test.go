package lockgrpc_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

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
			wantNil(t, i.Check(srv))
			c := dial(t, listen(t, srv))
			if _, err := c.SetStatus(bounded(t), online(1)); err != nil {
				t.Error(err)
			}
			wantNil(t, watchOne(bounded(t), c, "1"))
		})
	}
}
