package replicatest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/keyturn/keyturn/core"
	lockconnect "github.com/keyturn/keyturn/middleware/connect"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
)

// A client that sends each payment to both servers has paid once.
func testConnect(t *testing.T, b *backend) (outage func()) {
	const method = health.Health_Check_FullMethodName
	type (
		request  = health.HealthCheckRequest
		response = health.HealthCheckResponse
	)
	var balance, payments atomic.Int64
	server := func() *connect.Client[request, response] {
		locks, err := lockconnect.New(newEngine(t, b), lockgrpc.Once(method, "payment:{service}", core.WithMaxWait(b.maxWait())))
		if err != nil {
			t.Fatal(err)
		}
		handler := connect.NewUnaryHandler(method, func(context.Context, *connect.Request[request]) (*connect.Response[response], error) {
			time.Sleep(time.Millisecond) // room for the other server, if it got in
			balance.Add(1)
			return connect.NewResponse(&response{Status: health.HealthCheckResponse_ServingStatus(payments.Add(1))}), nil
		}, connect.WithInterceptors(locks))
		mux := http.NewServeMux()
		mux.Handle(method, handler)
		srv := httptest.NewServer(mux)
		t.Cleanup(srv.Close)
		return connect.NewClient[request, response](srv.Client(), srv.URL+method)
	}
	servers := []*connect.Client[request, response]{server(), server()}
	ctx := bounded(t)
	pay := func(i int) (int32, error) {
		a, err := servers[i%2].CallUnary(ctx, connect.NewRequest(&request{Service: fmt.Sprint(i / 2)}))
		if err != nil {
			return 0, err
		}
		return int32(a.Msg.Status), nil
	}
	var receipts [40]int32
	var all sync.WaitGroup
	for i := range receipts {
		all.Go(func() {
			var err error
			if receipts[i], err = pay(i); err != nil {
				t.Errorf("payment %d: %v", i/2, err)
			}
		})
	}
	all.Wait()
	for i := 0; i < len(receipts); i += 2 {
		if receipts[i] != receipts[i+1] || receipts[i] == 0 {
			t.Errorf("payment %d has the receipts %d and %d", i/2, receipts[i], receipts[i+1])
		}
	}
	if balance.Load() != 20 {
		t.Errorf("%d payments, want 20", balance.Load())
	}
	return func() {
		if _, err := pay(0); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("connect without a store: %v", err)
		}
	}
}
