package lockgrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

// One service holds a user and has another one change the status, under a rule of
// its own for the same user.
func ExampleCarryLeases() {
	store := memstore.New()
	gateway, _ := core.New(store)
	service, _ := core.New(store.Peer()) // in life another process, and a store that both reach
	ctx := context.Background()
	defer gateway.Close(ctx)
	defer service.Close(ctx)

	locks, err := lockgrpc.New(service, lockgrpc.Serialize(testpb.Users_SetStatus_FullMethodName, "user:{user_id}", core.WithFailFast()))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(lockgrpc.AcceptLeases{}.Unary(), locks.Unary()))
	testpb.RegisterUsersServer(server, &users{statuses: map[int64]testpb.Status{}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(lockgrpc.CarryLeases{}.Unary()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := testpb.NewUsersClient(conn)

	request := &testpb.SetStatusRequest{UserId: 42, Status: testpb.Status_STATUS_AWAY}
	err = gateway.Do(ctx, "user:42", func(under context.Context) error {
		_, err := client.SetStatus(ctx, request) // not under the lease: somebody else's call
		fmt.Println(status.Code(err))
		response, err := client.SetStatus(under, request)
		fmt.Println(response.GetText())
		return err
	})
	fmt.Println(err)
	// Output:
	// Aborted
	// was STATUS_UNSPECIFIED
	// <nil>
}
