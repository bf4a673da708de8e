package lockconnect_test

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keyturn/keyturn/core"
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/store/memstore"
)

func ExampleNew() {
	eng, _ := core.New(memstore.New()) // a program: redisstore.New(client)
	defer eng.Close(context.Background())
	locks, err := lockconnect.New(eng,
		lockgrpc.Serialize("/grpc.health.v1.Health/Check", "service:{service}", core.WithMaxWait(2*time.Second)),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := connect.NewUnaryHandler("/grpc.health.v1.Health/Check",
		func(ctx context.Context, req *connect.Request[health.HealthCheckRequest]) (*connect.Response[health.HealthCheckResponse], error) {
			return connect.NewResponse(&health.HealthCheckResponse{}), nil // one at a time per service
		}, connect.WithInterceptors(locks))
	fmt.Println(handler != nil)
	// Output: true
}
