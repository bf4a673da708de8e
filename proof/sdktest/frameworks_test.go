package sdktest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/contrib/instrumentation/github.com/labstack/echo/otelecho"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/observe"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
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
			want(t, send(ctx), nil)
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

func TestEcho(t *testing.T) {
	s, eng := newScenario(t)
	locks, err := lockecho.New(eng, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"))
	must(t, err)
	e := echo.New()
	e.Use(otelecho.Middleware("im", otelecho.WithTracerProvider(s.o.tracers)))
	e.PUT("/users/:id/status", func(c echo.Context) error {
		s.handle(c.Request().Context())
		return c.NoContent(http.StatusNoContent)
	}, locks.Middleware)
	s.run(t, "echo", put(t, s, e))
}

// put serves h and gives what sends a request to it, with the trace.
func put(t *testing.T, s *scenario, h http.Handler) func(context.Context) error {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client := &http.Client{Transport: otelhttp.NewTransport(server.Client().Transport, otelhttp.WithTracerProvider(s.o.tracers))}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/users/42/status", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}
