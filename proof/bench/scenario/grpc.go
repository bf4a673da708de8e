package scenario

import (
	"context"
	"errors"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/proof/bench/stats"
)

// grpcCalls compares calls to a server whose method has a rule with calls to the same server
// without the interceptor. Client and server are connected in memory: a network's time would
// only blur the difference.
func grpcCalls(ctx context.Context, env *Env, store string) (_ []stats.Sample, err error) {
	eng, shut, err := env.engine(ctx, store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	locks, err := lockgrpc.New(eng, lockgrpc.Serialize(health.Health_Check_FullMethodName, "user:status:{service}"))
	if err != nil {
		return nil, err
	}
	bare, err := newGRPC()
	if err != nil {
		return nil, err
	}
	defer closing(&err, bare)
	locked, err := newGRPC(grpc.ChainUnaryInterceptor(locks.Unary()))
	if err != nil {
		return nil, err
	}
	defer closing(&err, locked)
	return added(ctx, env.Size, bare.caller(ctx), locked.caller(ctx))
}

// grpcPair is a server and its client.
type grpcPair struct {
	server *grpc.Server
	conn   *grpc.ClientConn
	ended  chan error // of the server
}

func newGRPC(opts ...grpc.ServerOption) (*grpcPair, error) {
	listener := bufconn.Listen(1 << 20)
	conn, err := grpc.NewClient(
		"passthrough:///in-memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	if err != nil {
		return nil, err
	}
	p := &grpcPair{server: grpc.NewServer(opts...), conn: conn, ended: make(chan error, 1)}
	health.RegisterHealthServer(p.server, statusServer{})
	go func() { p.ended <- p.server.Serve(listener) }()
	return p, nil
}

// caller returns a call, each time for the next user. The service of gRPC's health checks
// serves as one with users: it has a small request with a field that makes a key.
func (p *grpcPair) caller(ctx context.Context) func() error {
	client := health.NewHealthClient(p.conn)
	n := int64(0)
	return func() error {
		n++
		_, err := client.Check(ctx, &health.HealthCheckRequest{Service: strconv.FormatInt(1+n%users, 10)})
		return err
	}
}

func (p *grpcPair) Close() error {
	err := p.conn.Close()
	p.server.Stop()
	return errors.Join(err, <-p.ended)
}

type statusServer struct {
	health.UnimplementedHealthServer
}

func (statusServer) Check(context.Context, *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, nil
}
