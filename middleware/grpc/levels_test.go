package lockgrpc_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/leveltest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

func TestLevels(t *testing.T) {
	eng := memory(t)
	var claims []core.Claim
	s := &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		lease, _ := core.LeaseFrom(ctx)
		claims = lease.Claims()
		return &testpb.SetStatusResponse{}, nil
	}}
	template := fmt.Sprintf(leveltest.Template, "message_id", "user_id")
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(setStatus, template, core.WithHierarchy(), core.WithFailFast())))
	leveltest.Run(t, eng, func(group, member string) []core.Claim {
		id, err := strconv.ParseInt(member, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		claims = nil
		_, err = c.SetStatus(bounded(t), &testpb.SetStatusRequest{MessageId: group, UserId: id})
		if (claims == nil) != (status.Code(err) == codes.Aborted) || claims != nil && err != nil {
			t.Errorf("claims %v, %v", claims, err)
		}
		return claims
	})
}
