package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/keyturn/keyturn/core"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// grpcCalls compares calls to a server whose method has a rule with calls to the same server
// without the interceptor.
func grpcCalls(eng *core.Engine) (calls, error) {
	locks, err := lockgrpc.New(eng, lockgrpc.Serialize(health.Health_Check_FullMethodName, "user:status:{service}"))
	if err != nil {
		return calls{}, err
	}
	bare, stopBare, err := serveGRPC()
	if err != nil {
		return calls{}, err
	}
	locked, stopLocked, err := serveGRPC(grpc.ChainUnaryInterceptor(locks.Unary()))
	return calls{bare, locked, func() error { return errors.Join(stopBare(), stopLocked()) }}, err
}

// serveGRPC starts a server and returns a call of it. Client and server are connected in memory: a
// network's time would only blur the difference. The service of gRPC's health checks serves as one
// with users: it has a small request with a field that makes a key.
func serveGRPC(opts ...grpc.ServerOption) (call func(context.Context, int) error, stop func() error, err error) {
	listener := bufconn.Listen(1 << 20)
	conn, err := grpc.NewClient(
		"passthrough:///in-memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)
	if err != nil {
		return nil, nil, err
	}
	server, ended := grpc.NewServer(opts...), make(chan error, 1)
	health.RegisterHealthServer(server, statusServer{})
	go func() { ended <- server.Serve(listener) }()
	client := health.NewHealthClient(conn)
	call = func(ctx context.Context, user int) error {
		_, err := client.Check(ctx, &health.HealthCheckRequest{Service: strconv.Itoa(1 + user)})
		return err
	}
	return call, func() error {
		err := conn.Close()
		server.Stop()
		return errors.Join(err, <-ended)
	}, nil
}

type statusServer struct {
	health.UnimplementedHealthServer
}

func (statusServer) Check(context.Context, *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, nil
}

// echoRequests compares requests to a route that has a rule with requests to the same route
// without a rule. They call Echo's ServeHTTP directly: net/http and the network take the same
// time in both cases, and would only blur the difference.
func echoRequests(eng *core.Engine) (calls, error) {
	locks, err := lockecho.New(eng, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}"))
	if err != nil {
		return calls{}, err
	}
	return calls{echoCall(), echoCall(locks.Middleware), nil}, nil
}

func echoCall(rules ...echo.MiddlewareFunc) func(context.Context, int) error {
	e := echo.New()
	e.PUT("/users/:id/status", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }, rules...)
	return func(ctx context.Context, user int) error {
		response := httptest.NewRecorder()
		e.ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("/users/%d/status", user), http.NoBody))
		if response.Code != http.StatusNoContent {
			return fmt.Errorf("the answer is %d", response.Code)
		}
		return nil
	}
}

// asynqTasks compares a handler that has a rule with one that has none, without asynq's server.
func asynqTasks(eng *core.Engine) (calls, error) {
	const taskType = "user:status"
	locks, err := lockasynq.New(eng, lockasynq.Serialize(taskType, "user:status:{payload.user_id}"))
	if err != nil {
		return calls{}, err
	}
	handle := func(middleware ...asynq.MiddlewareFunc) func(context.Context, int) error {
		mux := asynq.NewServeMux()
		mux.Use(middleware...)
		mux.HandleFunc(taskType, func(context.Context, *asynq.Task) error { return nil })
		return func(ctx context.Context, user int) error {
			return mux.ProcessTask(ctx, asynq.NewTask(taskType, fmt.Appendf(nil, `{"user_id":%d,"status":"away"}`, user)))
		}
	}
	return calls{handle(), handle(locks.Middleware), nil}, nil
}
