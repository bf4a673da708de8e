package recipes

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	kgrpc "github.com/go-kratos/kratos/v2/transport/grpc"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/rest"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/locktest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// calls is a service whose answer names the key that its caller holds.
type calls struct {
	pb.UnimplementedTestServiceServer
}

func (calls) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	l, ok := core.LeaseFrom(ctx)
	if !ok {
		return nil, errors.New("unlocked")
	}
	return &pb.SimpleResponse{ServerId: l.Key()}, nil
}

func newInterceptor(t *testing.T) *lockgrpc.Interceptor {
	t.Helper()
	locks, err := lockgrpc.New(locktest.New(t).Engine, lockgrpc.Serialize(pb.TestService_UnaryCall_FullMethodName, "user:{metadata.x-user}"))
	must(t, err)
	return locks
}

func TestKratosGRPC(t *testing.T) {
	server := kratosGRPC(newInterceptor(t))
	pb.RegisterTestServiceServer(server, calls{})
	at, err := server.Endpoint() // it listens from here on
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Start(t.Context()) }()
	conn, err := kgrpc.DialInsecure(t.Context(), kgrpc.WithEndpoint(at.Host))
	must(t, err)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user", "42")
	if res, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{}); err != nil || res.GetServerId() != "user:42" {
		t.Errorf("%v, %v", res, err)
	}
	_ = conn.Close()
	if err := errors.Join(server.Stop(context.Background()), <-done); err != nil {
		t.Error(err)
	}
}

func TestKratosHTTP(t *testing.T) {
	s := khttp.NewServer()
	kratosStatus(s, ruletest.Locks(t, locktest.New(t).Engine, lockhttp.Serialize("/users/{id}/status", "user:status:{path.id}")), func(c khttp.Context) error {
		// Generated code passes c on as a context, through the middlewares of Kratos.
		res, err := c.Middleware(func(ctx context.Context, _ any) (any, error) {
			if err := errors.Join(core.AssertHeld(ctx, core.Exclusive("user:status:42")), core.AssertHeld(c, core.Exclusive("user:status:42"))); err != nil {
				return nil, err
			}
			return key(c.Request()), nil
		})(c, nil)
		if err != nil {
			return err
		}
		return c.String(http.StatusOK, res.(string))
	})
	if code, text := do(t, s, "PUT", "/users/42/status", ""); code != 200 || text != "user:status:42" {
		t.Error(code, text)
	}
}

// interceptors stands for a zrpc.RpcServer.
type interceptors struct{ unary []grpc.UnaryServerInterceptor }

func (i *interceptors) AddUnaryInterceptors(all ...grpc.UnaryServerInterceptor) { i.unary = all }
func (*interceptors) AddStreamInterceptors(...grpc.StreamServerInterceptor)     {}

func TestGoZeroRPC(t *testing.T) {
	var server interceptors
	goZeroRPC(&server, newInterceptor(t))
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-user", "42"))
	res, err := server.unary[0](ctx, &pb.SimpleRequest{}, &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName},
		func(ctx context.Context, req any) (any, error) {
			return calls{}.UnaryCall(ctx, req.(*pb.SimpleRequest))
		})
	if err != nil || res.(*pb.SimpleResponse).GetServerId() != "user:42" {
		t.Errorf("%v, %v", res, err)
	}
}

func TestGoZeroHTTP(t *testing.T) {
	logx.Disable()
	server, err := rest.NewServer(rest.RestConf{})
	must(t, err)
	goZeroStatus(server, ruletest.Locks(t, locktest.New(t).Engine, lockhttp.Serialize("PUT /users/:id/status", "user:status:{path.id}")), func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(key(r))) })
	serverless, err := rest.NewServerless(server)
	must(t, err)
	w := httptest.NewRecorder()
	serverless.Serve(w, httptest.NewRequest("PUT", "/users/42/status", http.NoBody))
	if w.Code != 200 || w.Body.String() != "user:status:42" {
		t.Error(w.Code, w.Body)
	}
}
