package lockgrpc_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/experimental/grpccarry"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
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

// A service holds keys and calls another one, which takes the same keys, whatever its rules guard. How the callee
// ends with its caller's lease is core's.
func TestCallUnderTheCallersLease(t *testing.T) {
	for kind, g := range guarded {
		at, depths := 0, map[string]int{"42": 2, "45": 1}
		if kind == "once" { // has its keys alone
			depths = map[string]int{"45": 1}
		}
		caller, c := carrying(t, working(func(ctx context.Context) error {
			at = leaseSeen(ctx).Depth()
			return nil
		}), g.rule(core.WithFailFast()))
		err := caller.DoAll(bounded(t), []core.Claim{core.Exclusive("user:42"), core.Shared("user:43")}, func(ctx context.Context) error {
			for user, depth := range depths {
				if err := g.send(ctx, c, user); err != nil || at != depth {
					t.Errorf("%s, user %s: at depth %d, %v; want %d", kind, user, at, err, depth)
				}
			}
			if err := g.send(ctx, c, "43"); status.Code(err) != codes.Internal { // it would wait for its own caller
				t.Errorf("%s: %v", kind, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
