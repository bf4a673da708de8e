package lockgrpc_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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

// Each interceptor has what those outside of it put into the context, for every kind of method, and
// a panic goes on to recovery.
func TestOrderOfInterceptors(t *testing.T) {
	eng := memory(t)
	const rule = "{metadata.x-user}"
	i := locks(t, eng, lockgrpc.Serialize(setStatus, rule), lockgrpc.Once(addMembers, rule), lockgrpc.Serialize(watch, rule), lockgrpc.SerializeMessages(chat, rule))
	look := func(ctx context.Context) {
		if held := claimsOf(ctx); held != "exclusive ann" || ctx.Value(caller{}) != "ann" {
			t.Errorf("held %q, called by %v", held, ctx.Value(caller{}))
		}
		panic("boom")
	}
	s := &server{
		setStatus: func(ctx context.Context, r *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			look(ctx)
			return nil, nil
		},
		members: func(ctx context.Context, _ *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
			look(ctx)
			return nil, nil
		},
		watch: func(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
			look(stream.Context())
			return nil
		},
		chat: func(stream chatStream) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			look(stream.Context())
			return nil
		},
	}
	c := serve(t, s, i, slices.Concat([]grpc.ServerOption{grpc.ChainUnaryInterceptor(recovery), grpc.ChainStreamInterceptor(recoverStream)}, outside(asAnn))...)
	ctx := metadata.AppendToOutgoingContext(bounded(t), "x-user", "forged", "x-user", "too")
	for method, call := range map[string]func() error{
		setStatus:  func() error { _, err := c.SetStatus(ctx, online(42)); return err },
		addMembers: func() error { _, err := c.AddMembers(ctx, &testpb.AddMembersRequest{}); return err },
		watch:      func() error { return watchOne(ctx, c, "7") },
		chat: func() error {
			stream, err := c.Chat(ctx)
			if err != nil {
				return err
			}
			say(t, stream, "7")
			_, err = stream.Recv()
			return err
		},
	} {
		if err := call(); status.Convert(err).Message() != "recovered: boom" {
			t.Errorf("%s: %v", method, err)
		}
		free(t, eng, "ann")
	}
}
