package lockgrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/experimental/grpccarry"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
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

// A service holds keys and calls another one, which takes the same keys, whatever its rules guard. How the callee ends with
// its caller's lease is core's.
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
