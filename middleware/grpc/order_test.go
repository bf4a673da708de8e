package lockgrpc_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
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
