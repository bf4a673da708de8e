package lockgrpc_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// BenchmarkUnary is what a rule adds to a call, on the in-memory store and
// without the network: "no rule" is the interceptor alone.
func BenchmarkUnary(b *testing.B) {
	request := &testpb.SetStatusRequest{UserId: 42, Status: testpb.Status_STATUS_ONLINE, MessageId: "8f2c"}
	response := &testpb.SetStatusResponse{Text: "was STATUS_AWAY"}
	handler := func(context.Context, any) (any, error) { return response, nil }
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-tenant", "acme"))
	for _, bench := range []struct {
		name string
		rule lockgrpc.Rule
	}{
		{"no rule", lockgrpc.Serialize(addMembers, "group:{group.id}")},
		{"serialize", lockgrpc.Serialize(setStatus, "user:{user_id}")},
		{"serialize, metadata", lockgrpc.Serialize(setStatus, "user:{metadata.x-tenant}:{user_id}")},
		{"serialize by", lockgrpc.SerializeBy(setStatus, func(r *testpb.SetStatusRequest) string { return fmt.Sprint("user:", r.GetUserId()) })},
		{"once, replayed", lockgrpc.Once(setStatus, "once:{message_id}")},
	} {
		b.Run(bench.name, func(b *testing.B) {
			interceptor := locks(b, memory(b), bench.rule).Unary()
			info := &grpc.UnaryServerInfo{FullMethod: setStatus}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := interceptor(ctx, request, info, handler); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
