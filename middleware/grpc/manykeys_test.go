package lockgrpc_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

type caller struct{}

// TestKeysOfTheContext: the keys come from what authentication has put into the context, too, and are one set.
func TestKeysOfTheContext(t *testing.T) {
	auth := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(context.WithValue(ctx, caller{}, "ann"), req)
	})
	keys := func(ctx context.Context, r *testpb.SetStatusRequest) ([]string, error) {
		switch r.GetUserId() {
		case 0:
			return nil, nil
		case 9:
			return nil, status.Error(codes.Unauthenticated, "who are you")
		}
		return []string{"user:" + ctx.Value(caller{}).(string), "group:1", "group:1"}, nil
	}
	var held []string
	c := serve(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		lease, _ := core.LeaseFrom(ctx)
		held = nil
		for _, claim := range lease.Claims() {
			held = append(held, claim.Key)
		}
		return &testpb.SetStatusResponse{}, nil
	}}, locks(t, memory(t), lockgrpc.SerializeKeys(setStatus, keys)), auth)
	if _, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 1}); err != nil || !slices.Equal(held, []string{"group:1", "user:ann"}) {
		t.Errorf("held %v, %v", held, err)
	}
	if _, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{}); status.Code(err) != codes.InvalidArgument || reason(t, err) != reasons.KeyInvalid {
		t.Errorf("no keys: %v", err)
	}
	if _, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 9}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the function's own status: %v", err)
	}
	if _, err := lockgrpc.New(memory(t), lockgrpc.SerializeKeys[*testpb.SetStatusRequest](setStatus, nil)); err == nil {
		t.Error("a nil function")
	}
}
