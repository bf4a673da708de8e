package grpccarry_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/experimental/grpccarry"
	"github.com/keyturn/keyturn/store/memstore"
)

// One service holds a user and calls another one, which has a rule of its own for the same
// user.
func Example() {
	store := memstore.New()
	gateway, _ := core.New(store)
	service, _ := core.New(store.Peer()) // in life another process, and a store that both reach
	ctx := context.Background()
	defer gateway.Close(ctx)
	defer service.Close(ctx)

	locks, err := lockgrpc.New(service, lockgrpc.Serialize(grpc_health_v1.Health_Check_FullMethodName, "user:{service}", core.WithFailFast()))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpccarry.UnaryServer, locks.Unary()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer()) // any service will do
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(grpccarry.UnaryClient))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)

	request := &grpc_health_v1.HealthCheckRequest{Service: "42"}
	err = gateway.Do(ctx, "user:42", func(under context.Context) error {
		_, err := client.Check(ctx, request) // not under the lease: somebody else's call
		fmt.Println(status.Code(err))
		_, err = client.Check(under, request)
		fmt.Println(status.Code(err)) // the method ran: it does not know the service
		return nil
	})
	fmt.Println(err)
	// Output:
	// Aborted
	// NotFound
	// <nil>
}
