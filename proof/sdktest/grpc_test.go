package sdktest

import (
	"context"
	"net"
	"sync"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/store/memstore"
)

// scenario is two requests for one key: the first holds it until the second is
// in its way.
type scenario struct {
	o       *observed
	inside  chan struct{} // somebody is in the handler
	blocked chan struct{} // somebody is kept waiting
}

func newScenario(t *testing.T) (*scenario, *core.Engine) {
	s := &scenario{o: watch(t), inside: make(chan struct{}, 2), blocked: make(chan struct{}, 2)}
	blocked := func(context.Context, observe.Acquisition, core.HeldError, int) { s.blocked <- struct{}{} }
	eng, err := core.New(memstore.New(), core.WithHooks(s.o.obs), core.WithHooks(observe.Hooks{Blocked: blocked}))
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return s, eng
}

// handle is the work: under a span of its own.
func (s *scenario) handle(ctx context.Context) {
	_, span := s.o.tracers.Tracer("test").Start(ctx, "work")
	defer span.End()
	first := len(s.inside) == 0
	s.inside <- struct{}{}
	if first {
		<-s.blocked
	}
}

// run sends the two, each within a span of its client's.
func (s *scenario) run(t *testing.T, name string, send func(context.Context) error) {
	t.Helper()
	var both sync.WaitGroup
	call := func(name string) {
		both.Go(func() {
			ctx, span := s.o.tracers.Tracer("test").Start(bounded(t), name)
			defer span.End()
			if err := send(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	call("first")
	await(t, "the first request to be at work", func() bool { return len(s.inside) == 1 })
	call("second")
	both.Wait()
	s.o.compare(t, name)
}

func TestGRPC(t *testing.T) {
	s, eng := newScenario(t)
	locks, err := lockgrpc.New(eng, lockgrpc.Serialize(health.Health_Check_FullMethodName, "user:status:{service}"))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer(
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(s.o.tracers))),
		grpc.ChainUnaryInterceptor(locks.Unary()),
	)
	health.RegisterHealthServer(server, users{s: s})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(s.o.tracers))))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	s.run(t, "grpc", func(ctx context.Context) error {
		_, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{Service: "42"})
		return err
	})
}

type users struct {
	health.UnimplementedHealthServer
	s *scenario
}

func (u users) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	u.s.handle(ctx)
	return &health.HealthCheckResponse{}, nil
}
