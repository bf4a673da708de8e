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
	"github.com/keyturn/keyturn/middleware/reasons"
)

// guarded are the ways in which a rule guards: a call, one of Once, a stream as a whole, and each
// message of it. Each makes its key, such as "user:42", from an id; there is none for "".
var guarded = map[string]struct {
	method string
	rule   func(opts ...core.CallOption) lockgrpc.Rule
	send   func(ctx context.Context, c client, id string) error
}{
	"call": {setStatus, func(o ...core.CallOption) lockgrpc.Rule {
		return lockgrpc.Serialize(setStatus, "user:{user_id}", o...)
	}, callWith},
	"once": {setStatus, func(o ...core.CallOption) lockgrpc.Rule { return lockgrpc.Once(setStatus, "user:{user_id}", o...) }, callWith},
	"stream": {importAll, func(o ...core.CallOption) lockgrpc.Rule {
		return lockgrpc.Serialize(importAll, "user:{group_id}", o...)
	}, streamOf},
	"message": {importAll, func(o ...core.CallOption) lockgrpc.Rule {
		return lockgrpc.SerializeMessages(importAll, "user:{group_id}", o...)
	}, streamOf},
}

func callWith(ctx context.Context, c client, id string) error {
	user, _ := strconv.ParseInt(id, 10, 64)
	_, err := c.SetStatus(ctx, online(user))
	return err
}

func streamOf(ctx context.Context, c client, id string) error {
	return importOne(ctx, c, &testpb.ImportRequest{GroupId: id})
}

// working does work in each call, and for each message of a stream.
func working(work func(context.Context) error) *server {
	return &server{
		setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			return &testpb.SetStatusResponse{}, work(ctx)
		},
		importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
			for {
				switch _, err := stream.Recv(); {
				case errors.Is(err, io.EOF):
					return stream.SendAndClose(&testpb.ImportResponse{})
				case err != nil:
					return err
				}
				if err := work(stream.Context()); err != nil {
					return err
				}
			}
		},
	}
}

// idle is a server that gets nothing to do.
func idle(t testing.TB) *server {
	return working(func(context.Context) error {
		t.Error("the handler ran")
		return nil
	})
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

func watchOne(ctx context.Context, c client, group string) error {
	stream, err := c.Watch(ctx, &testpb.WatchRequest{GroupId: group})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

func TestShadow(t *testing.T) {
	for _, kind := range []string{"call", "stream", "message"} {
		t.Run(kind, func(t *testing.T) {
			shadowtest.Run(t, func(t testing.TB, eng *core.Engine, once bool, handler func(context.Context) error, opts ...core.CallOption) func(string) error {
				g := guarded[kind]
				if once && kind != "call" {
					return nil
				} else if once {
					g = guarded["once"]
				}
				c := serve(t, working(handler), locks(t, eng, g.rule(opts...)))
				return func(id string) error { return g.send(bounded(t), c, id) }
			})
		})
	}
}

// A stream without messages has no key, and the handler sees its end. Nothing is refused.
func TestShadowOfAStreamWithoutMessages(t *testing.T) {
	c := serve(t, working(func(context.Context) error { return errors.New("there is no message") }),
		locks(t, memory(t), guarded["stream"].rule(core.WithShadow())).WithErrorHandler(func(_ context.Context, refused *reasons.Refusal) error {
			t.Errorf("the handler is told of %v", refused)
			return refused
		}))
	wantNil(t, importOne(bounded(t), c))
}
