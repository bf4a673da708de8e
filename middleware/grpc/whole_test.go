package lockgrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// TestAResponseAfterTheCallersEndIsNotReplayed: a handler that gives up when its context ends, and
// returns what it has without an error, has made a part. Repeats got it as the whole.
func TestAResponseAfterTheCallersEndIsNotReplayed(t *testing.T) {
	runs := make(chan struct{}, 2)
	c := serve(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		runs <- struct{}{}
		<-ctx.Done()
		return &testpb.SetStatusResponse{Text: "the beginn"}, nil
	}}, locks(t, memory(t), lockgrpc.Once(setStatus, byMessage)))
	ctx, cancel := context.WithCancel(bounded(t))
	over := make(chan error, 1)
	go func() {
		_, err := c.SetStatus(ctx, message("a", 1))
		over <- err
	}()
	wait(t, runs, "the handler")
	cancel()
	if err := wait(t, over, "the call"); status.Code(err) != codes.Canceled {
		t.Errorf("the first call: %v", err)
	}
	resp, err := c.SetStatus(bounded(t), message("a", 1)) // waits for the first one's end
	if status.Code(err) != codes.AlreadyExists || reason(t, err) != reasons.ResultNotKept {
		t.Errorf("the repeat: %v, %v", resp, err)
	}
	if len(runs) > 0 {
		t.Error("the handler ran again")
	}
}
