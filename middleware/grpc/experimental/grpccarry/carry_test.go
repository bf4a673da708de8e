package grpccarry_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/locktest"
	"github.com/keyturn/keyturn/middleware/grpc/experimental/grpccarry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = checktest.Must

// locked is a service whose methods take a lock: unary and stream.
type locked struct {
	grpc_health_v1.UnimplementedHealthServer
	eng *core.Engine
}

func (h locked) lock(ctx context.Context, key string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if h.eng.Do(ctx, key, func(context.Context) error { return nil }, core.WithFailFast()) != nil {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

func (h locked) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: h.lock(ctx, r.GetService())}, nil
}

func (h locked) Watch(r *grpc_health_v1.HealthCheckRequest, s grpc_health_v1.Health_WatchServer) error {
	return s.Send(&grpc_health_v1.HealthCheckResponse{Status: h.lock(s.Context(), r.GetService())})
}

// A method gets the key that its caller holds, and no other caller's, if both sides opted in.
func TestMethodsRunUnderTheCallersLease(t *testing.T) {
	caller := locktest.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpccarry.UnaryServer), grpc.ChainStreamInterceptor(grpccarry.StreamServer))
	grpc_health_v1.RegisterHealthServer(server, locked{eng: caller.Peer(t).Engine})
	go server.Serve(listener)
	defer server.Stop()
	dial := func(opts ...grpc.DialOption) grpc_health_v1.HealthClient {
		conn, err := grpc.NewClient(listener.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return grpc_health_v1.NewHealthClient(conn)
	}
	carries := dial(grpc.WithChainUnaryInterceptor(grpccarry.UnaryClient), grpc.WithChainStreamInterceptor(grpccarry.StreamClient))
	plain := dial()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got := func(c grpc_health_v1.HealthClient, ctx context.Context) (unary, stream bool) {
		t.Helper()
		request := &grpc_health_v1.HealthCheckRequest{Service: "user:42"}
		one, err := c.Check(ctx, request)
		must(t, err)
		watch, err := c.Watch(ctx, request)
		must(t, err)
		other, err := watch.Recv()
		must(t, err)
		const serving = grpc_health_v1.HealthCheckResponse_SERVING
		return one.GetStatus() == serving, other.GetStatus() == serving
	}
	err = caller.Engine.Do(ctx, "user:42", func(under context.Context) error {
		for name, tc := range map[string]struct {
			client grpc_health_v1.HealthClient
			ctx    context.Context
			want   bool
		}{
			"under the lease":       {carries, under, true},
			"another caller":        {carries, ctx, false},
			"no client interceptor": {plain, under, false},
			// A proxy that copies the metadata of its own caller replaces it.
			"copied metadata":  {carries, metadata.AppendToOutgoingContext(under, carry.Header, "from outside"), true},
			"copied, no lease": {carries, metadata.AppendToOutgoingContext(ctx, carry.Header, carry.Leases(under)), false},
			"forged metadata":  {plain, metadata.AppendToOutgoingContext(ctx, carry.Header, "from outside"), false},
		} {
			if unary, stream := got(tc.client, tc.ctx); unary != tc.want || stream != tc.want {
				t.Errorf("%s: unary %v, stream %v; want %v", name, unary, stream, tc.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
