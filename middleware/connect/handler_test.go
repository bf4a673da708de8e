package lockconnect_test

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/locktest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// refusedBy returns the error that a client gets from a call whose key is held.
func refusedBy(t *testing.T, h lockgrpc.ErrorHandler) error {
	t.Helper()
	kit := locktest.New(t)
	lease, err := kit.Engine.Acquire(t.Context(), "user:ann")
	must(t, err)
	c := serve(t, handlers{refused: h}, kit.Engine, []lockgrpc.Rule{lockgrpc.Serialize(check, "user:{service}", core.WithFailFast())})
	_, refused := c.call("ann")
	wantNil(t, lease.Release(t.Context()))
	return refused
}

// TestErrorHandler: an error of connect's keeps its code, and gets the details that clients look for.
func TestErrorHandler(t *testing.T) {
	own := connect.NewError(connect.CodeOutOfRange, errors.New("come again"))
	own.Meta().Set("X-Code", "1503")
	err := refusedBy(t, func(context.Context, *reasons.Refusal) error { return own })
	var got *connect.Error
	if !errors.As(err, &got) || got.Code() != connect.CodeOutOfRange || got.Message() != "come again" || got.Meta().Get("X-Code") != "1503" {
		t.Errorf("%v", err)
	}
	if _, reason, retry := reasonOf(t, err); reason != reasons.LockHeld || !retry {
		t.Errorf("reason %q, retry %v", reason, retry)
	}
	if err := refusedBy(t, func(_ context.Context, refused *reasons.Refusal) error { return refused.Answer }); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("the default: %v", err)
	}
}
