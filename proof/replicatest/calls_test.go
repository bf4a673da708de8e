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
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
)

// The messages are those of gRPC's own tests, which have no better place for a key than the call's metadata.
const payments = pb.TestService_UnaryCall_FullMethodName

// service answers with a receipt.
type service struct {
	pb.UnimplementedTestServiceServer
	*account
}

func (s *service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{ServerId: s.pay()}, nil
}

func onGRPC(t *testing.T, b *backend, a *account) replica {
	eng := newEngine(t, b)
	onePayment, err := lockgrpc.New(eng, lockgrpc.Once(payments, "grpc:payment:{metadata.x-id}"))
	must(t, err)
	oneAccount, err := lockgrpc.New(eng, lockgrpc.Serialize(payments, "grpc:account:{metadata.x-account}"))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(onePayment.Unary(), oneAccount.Unary()))
	pb.RegisterTestServiceServer(server, &service{account: a})
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
		ctx = metadata.AppendToOutgoingContext(ctx, "x-id", fmt.Sprint(id), "x-account", "1")
		response, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
		return response.GetServerId(), err
	}
}

func unavailableGRPC(err error) bool { return status.Code(err) == codes.Unavailable }

func onConnect(t *testing.T, b *backend, a *account) replica {
	const method = health.Health_Check_FullMethodName
	type (
		request  = health.HealthCheckRequest
		response = health.HealthCheckResponse
	)
	eng, wait := newEngine(t, b), core.WithMaxWait(b.maxWait())
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
