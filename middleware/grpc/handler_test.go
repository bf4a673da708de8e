package lockgrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// errBusy is an error of the service.
var errBusy = errors.New("busy")

// TestErrorHandler: a service answers refusals in its own codes, and clients of ours still understand them.
func TestErrorHandler(t *testing.T) {
	var told *reasons.Refusal
	eng := memory(t)
	handler := func(_ context.Context, refused *reasons.Refusal) error {
		told = refused
		if refused.Reason == reasons.LockHeld {
			return status.Error(codes.Code(1503), "come again")
		}
		if refused.Reason == reasons.KeyInvalid {
			return errBusy
		}
		return refused.Answer
	}
	var seen error // by an outer interceptor
	outer := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		resp, err := next(ctx, req)
		seen = err
		return resp, err
	})
	own := status.Error(codes.NotFound, "no such user")
	i := locks(t, eng, lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithFailFast())).WithErrorHandler(handler)
	c := serve(t, &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) { return nil, own }}, i, outer)

	lease, err := eng.Acquire(bounded(t), "user:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 1})
	if s := status.Convert(err); s.Code() != 1503 || s.Message() != "come again" || reason(t, err) != reasons.LockHeld {
		t.Errorf("refused: %v %v", err, s.Details())
	}
	if after, ok := lockgrpc.RetryAfter(setStatus, err); !ok || after <= 0 {
		t.Errorf("our client would not repeat it: %v, %v", after, ok)
	}
	if told == nil || told.Rule != setStatus || told.Key != "user:1" || !told.Again || told.Ran || told.RetryAfter <= 0 || told.RetryAfter > time.Minute || !errors.Is(told, core.ErrHeld) {
		t.Errorf("told %+v", told)
	}
	if !errors.Is(seen, core.ErrHeld) {
		t.Errorf("an outer interceptor sees %v", seen)
	}
	if err := lease.Release(bounded(t)); err != nil {
		t.Error(err)
	}
	told = nil
	if _, err = c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: 1}); status.Code(err) != codes.NotFound || told != nil {
		t.Errorf("the handler's own error: %v, %+v", err, told)
	}
	_, err = c.SetStatus(bounded(t), &testpb.SetStatusRequest{})
	if status.Code(err) != codes.Unknown || reason(t, err) != reasons.KeyInvalid || told == nil || told.Key != "" || !errors.Is(seen, errBusy) {
		t.Errorf("no key: %v, %+v, %v", err, told, seen)
	}
}

// TestErrorHandlerOfStreams gets the refusal of a stream, and that of one of its messages.
func TestErrorHandlerOfStreams(t *testing.T) {
	eng := memory(t)
	handler := func(_ context.Context, refused *reasons.Refusal) error {
		return status.Error(codes.Code(1503), refused.Key)
	}
	c := serve(t, &server{
		watch: func(*testpb.WatchRequest, grpc.ServerStreamingServer[testpb.Event]) error { return nil },
		chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
			_, err := stream.Recv()
			return err
		},
	}, locks(t, eng,
		lockgrpc.Serialize(watch, "group:{group_id}", core.WithFailFast()),
		lockgrpc.SerializeMessagesBy(chat, func(*testpb.Event) string { return "group:1" }, core.WithFailFast()),
	).WithErrorHandler(handler))
	lease, err := eng.Acquire(bounded(t), "group:1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(bounded(t)) }()
	events, err := c.Watch(bounded(t), &testpb.WatchRequest{GroupId: "1"})
	if err == nil {
		_, err = events.Recv()
	}
	if s := status.Convert(err); s.Code() != 1503 || s.Message() != "group:1" || reason(t, err) != reasons.LockHeld {
		t.Errorf("the stream: %v", err)
	}
	talk, err := c.Chat(bounded(t))
	if err == nil {
		_ = talk.Send(&testpb.Event{})
		_, err = talk.Recv()
	}
	if s := status.Convert(err); s.Code() != 1503 || s.Message() != "group:1" || reason(t, err) != reasons.LockHeld {
		t.Errorf("the message: %v", err)
	}
}
