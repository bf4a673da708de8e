package replicatest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
)

// The keys come with each call's metadata, in x-id: the messages are those of gRPC's own
// tests, which have no better place for them.
const (
	serialized = pb.TestService_EmptyCall_FullMethodName
	once       = pb.TestService_UnaryCall_FullMethodName
)

// service is one whose methods are functions.
type service struct {
	pb.UnimplementedTestServiceServer
	serialized func()
	once       func() *pb.SimpleResponse
}

func (s *service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	s.serialized()
	return &pb.Empty{}, nil
}

func (s *service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return s.once(), nil
}

// with is a context whose calls have the key of id.
func with(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-id", id)
}

func onGRPC(t *testing.T, redis *redistest.Server, a *account) replica {
	eng := newEngine(t, redis)
	onePayment, err := lockgrpc.New(eng, lockgrpc.Once(once, "grpc:payment:{metadata.x-id}"))
	must(t, err)
	oneAccount, err := lockgrpc.New(eng, lockgrpc.Serialize(once, "grpc:account:{metadata.x-account}"))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(onePayment.Unary(), oneAccount.Unary()))
	pb.RegisterTestServiceServer(server, &service{once: func() *pb.SimpleResponse { return &pb.SimpleResponse{ServerId: a.pay()} }})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	client := pb.NewTestServiceClient(conn)
	return func(ctx context.Context, id int) (string, error) {
		ctx = metadata.AppendToOutgoingContext(with(ctx, fmt.Sprint(id)), "x-account", "1")
		response, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		return response.GetServerId(), err
	}
}

func unavailableGRPC(err error) bool { return status.Code(err) == codes.Unavailable }

func onConnect(t *testing.T, redis *redistest.Server, a *account) replica {
	const method = health.Health_Check_FullMethodName
	type (
		request  = health.HealthCheckRequest
		response = health.HealthCheckResponse
	)
	eng, wait := newEngine(t, redis), core.WithMaxWait(maxWait)
	onePayment, err := lockconnect.New(eng, lockgrpc.Once(method, "connect:payment:{service}", wait))
	must(t, err)
	oneAccount, err := lockconnect.New(eng, lockgrpc.Serialize(method, "connect:account:{metadata.x-account}", wait))
	must(t, err)
	handler := connect.NewUnaryHandler(method, func(context.Context, *connect.Request[request]) (*connect.Response[response], error) {
		var receipt int32
		_, err := fmt.Sscan(a.pay(), &receipt)
		return connect.NewResponse(&response{Status: health.HealthCheckResponse_ServingStatus(receipt)}), err
	}, connect.WithInterceptors(onePayment, oneAccount))
	mux := http.NewServeMux()
	mux.Handle(method, handler)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	client := connect.NewClient[request, response](srv.Client(), srv.URL+method)
	return func(ctx context.Context, id int) (string, error) {
		req := connect.NewRequest(&request{Service: fmt.Sprint(id)})
		req.Header().Set("x-account", "1")
		answer, err := client.CallUnary(ctx, req)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(answer.Msg.Status), nil
	}
}

func unavailableConnect(err error) bool { return connect.CodeOf(err) == connect.CodeUnavailable }
