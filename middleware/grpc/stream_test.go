package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

var byGroup = map[string]lockgrpc.Rule{
	"template": lockgrpc.Serialize(watch, "group:{group_id}"),
	"function": lockgrpc.SerializeBy(watch, func(r *testpb.WatchRequest) string { return "group:" + r.GetGroupId() }),
	"metadata": lockgrpc.Serialize(watch, "group:{metadata.x-group}"),
}

// inGroup names the group in metadata.
func inGroup(t *testing.T) context.Context {
	return metadata.AppendToOutgoingContext(bounded(t), "x-group", "7")
}

func TestServerStreamsTakeTurns(t *testing.T) {
	for name, rule := range byGroup {
		t.Run(name, func(t *testing.T) {
			eng := memory(t)
			s := &server{watch: func(r *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
				lease, ok := core.LeaseFrom(stream.Context())
				if !ok || lease.Key() != "group:7" {
					t.Errorf("lease: %v %+v", ok, lease)
				}
				if !isHeld(t, eng, "group:7") {
					t.Error("free in the handler")
				}
				for i := range 3 {
					if err := stream.Send(&testpb.Event{GroupId: r.GetGroupId(), Text: fmt.Sprint(i)}); err != nil {
						return err
					}
				}
				return nil
			}}
			c := serve(t, s, locks(t, eng, rule))
			stream, err := c.Watch(inGroup(t), &testpb.WatchRequest{GroupId: "7"})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if e, err := stream.Recv(); err != nil || e.GetGroupId() != "7" || e.GetText() != fmt.Sprint(i) {
					t.Fatalf("event %d: %v, %v", i, e, err)
				}
			}
			if _, err := stream.Recv(); err != io.EOF {
				t.Error(err)
			}
			free(t, eng, "group:7")
		})
	}
}

// A handler that takes its context before it receives has the lease in it, and
// gets every message.
func TestClientStreamHasTheLeaseFromTheStart(t *testing.T) {
	s := &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
		lease, ok := core.LeaseFrom(stream.Context())
		if !ok || lease.Key() != "import:7" {
			t.Errorf("before the first message: %v %+v", ok, lease)
		}
		for i := int32(0); ; i++ {
			chunk, err := stream.Recv()
			if err == io.EOF {
				return stream.SendAndClose(&testpb.ImportResponse{Chunks: i})
			}
			if err != nil || chunk.GetGroupId() != "7" || chunk.GetChunk()[0] != byte(i) {
				t.Errorf("chunk %d: %v, %v", i, chunk, err)
				return err
			}
		}
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(importAll, "import:{group_id}")))
	stream, err := c.Import(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(5) {
		if err := stream.Send(&testpb.ImportRequest{GroupId: "7", Chunk: []byte{i}}); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := stream.CloseAndRecv(); err != nil || resp.GetChunks() != 5 {
		t.Error(resp, err)
	}
	if err := importOne(bounded(t), c); status.Code(err) != codes.InvalidArgument || reason(t, err) != reasons.KeyInvalid {
		t.Errorf("without a message: %v", err)
	}
}

func TestBidirectionalStreamByMetadata(t *testing.T) {
	s := &server{chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
		lease, _ := core.LeaseFrom(stream.Context())
		// The first word is the server's: the key does not wait for a message.
		if err := stream.Send(&testpb.Event{Text: lease.Key()}); err != nil {
			return err
		}
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		return stream.Send(e)
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(chat, "chat:{metadata.x-group}")))
	stream, err := c.Chat(inGroup(t))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := stream.Recv(); err != nil || e.GetText() != "chat:7" {
		t.Error(e, err)
	}
	if err := stream.Send(&testpb.Event{Text: "echo"}); err != nil {
		t.Error(err)
	}
	if e, err := stream.Recv(); err != nil || e.GetText() != "echo" {
		t.Error(e, err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
}

// The caller's cancel is not a loss: Recv says what gRPC says.
func TestCancelWhileReceiving(t *testing.T) {
	entered, got := make(chan struct{}), make(chan error, 1)
	s := &server{chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
		close(entered)
		_, err := stream.Recv()
		got <- err
		return err
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(chat, "chat")))
	ctx, cancel := context.WithCancel(bounded(t))
	if _, err := c.Chat(ctx); err != nil {
		t.Fatal(err)
	}
	wait(t, entered, "call")
	cancel()
	if err := wait(t, got, "end of Recv"); status.Code(err) != codes.Canceled || errors.Is(err, core.ErrLeaseLost) {
		t.Error(err)
	}
}

// panicking is a stream whose RecvMsg panics, as a codec's or a validator's bug
// makes it.
type panicking struct{ grpc.ServerStream }

func (panicking) RecvMsg(any) error { panic("boom") }

// RecvMsg runs in a goroutine of its own, where a panic would end the process.
func TestPanicInRecvMsgReachesRecovery(t *testing.T) {
	breaks := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, panicking{stream})
	}
	s := &server{chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
		_, err := stream.Recv()
		return err
	}}
	eng := memory(t)
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(chat, "chat")), grpc.ChainStreamInterceptor(recoverStream, breaks))
	stream, err := c.Chat(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Convert(err).Message() != "recovered: boom" {
		t.Error(err)
	}
	free(t, eng, "chat")
}

// The handler behind the lock may receive into any type, as long as it is the method's message.
func TestReceivingIntoAnotherType(t *testing.T) {
	inner := func(m any) grpc.ServerOption {
		return grpc.ChainStreamInterceptor(func(_ any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			return stream.RecvMsg(m)
		})
	}
	for _, m := range []any{&testpb.Event{}, new(string)} {
		lock := locks(t, memory(t), lockgrpc.Serialize(watch, "group:{group_id}"))
		c := serve(t, &server{}, locks(t, memory(t)), grpc.ChainStreamInterceptor(lock.Stream()), inner(m))
		if err := watchOne(bounded(t), c, "7"); status.Code(err) != codes.Internal || reason(t, err) != reasons.Internal {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// fakeStream is a stream without a connection.
type fakeStream struct {
	grpc.ServerStream
	ctx  context.Context
	recv func() error
}

func (s *fakeStream) Context() context.Context { return s.ctx }

func (s *fakeStream) RecvMsg(any) error { return s.recv() }

func (s *fakeStream) SendMsg(any) error { return nil }
