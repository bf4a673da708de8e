package lockgrpc_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/shadowtest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

func TestShadow(t *testing.T) {
	shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
		rule := lockgrpc.Serialize
		if once {
			rule = lockgrpc.Once
		}
		c := serve(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			return &testpb.SetStatusResponse{}, handler(ctx)
		}}, locks(t, eng, rule(setStatus, "user:{user_id}", opts...)))
		return func(id string) error {
			user, _ := strconv.ParseInt(id, 10, 64)
			_, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: user})
			return err
		}
	})
}

// TestShadowOfStreams: whole streams, and single messages.
func TestShadowOfStreams(t *testing.T) {
	for name, rule := range map[string]func(string, string, ...core.CallOption) lockgrpc.Rule{
		"streams": lockgrpc.Serialize, "messages": lockgrpc.SerializeMessages,
	} {
		t.Run(name, func(t *testing.T) {
			shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
				if once {
					return nil
				}
				c := serve(t, &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
					return importEach(stream, handler)
				}}, locks(t, eng, rule(importAll, "group:{group_id}", opts...)))
				return func(id string) error { return importOne(bounded(t), c, &testpb.ImportRequest{GroupId: id}) }
			})
		})
	}
}

// TestShadowOfAStreamWithoutMessages: it has no key, and the handler sees its end.
func TestShadowOfAStreamWithoutMessages(t *testing.T) {
	c := serve(t, &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
		return importEach(stream, func(context.Context) error { return errors.New("there is no message") })
	}}, locks(t, memory(t), lockgrpc.Serialize(importAll, "group:{group_id}", core.WithShadow())))
	if err := importOne(bounded(t), c); err != nil {
		t.Error(err)
	}
}

func importEach(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse], handler func(context.Context) error) error {
	for {
		switch _, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return stream.SendAndClose(&testpb.ImportResponse{})
		case err != nil:
			return err
		}
		if err := handler(stream.Context()); err != nil {
			return err
		}
	}
}

func importOne(ctx context.Context, c client, messages ...*testpb.ImportRequest) error {
	stream, err := c.Import(ctx)
	if err != nil {
		return err
	}
	for _, m := range messages {
		_ = stream.Send(m) // io.EOF if a refusal was faster
	}
	_, err = stream.CloseAndRecv()
	return err
}

// watchOne watches a group until its first event.
func watchOne(ctx context.Context, c client, group string) error {
	stream, err := c.Watch(ctx, &testpb.WatchRequest{GroupId: group})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}
