package lockgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// A handler that takes its context before it receives has the lease in it, and
// gets every message.
func TestClientStreamHasTheLeaseFromTheStart(t *testing.T) {
	eng := memory(t)
	s := &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
		if held := claimsOf(stream.Context()); held != "exclusive import:7" || !isHeld(t, eng, "import:7") {
			t.Errorf("%q is held before the first message", held)
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
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(importAll, "import:{group_id}")))
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
	free(t, eng, "import:7")
	if err := importOne(bounded(t), c); status.Code(err) != codes.InvalidArgument || reason(t, err) != reasons.KeyInvalid {
		t.Errorf("without a message: %v", err)
	}
}

// The first word is the server's: a key of metadata does not wait for a message, nor does its SkipIf, which gets none.
func TestBidirectionalStreamByMetadata(t *testing.T) {
	s := &server{chat: func(stream chatStream) error {
		if err := stream.Send(&testpb.Event{Text: "hello"}); err != nil {
			return err
		}
		return echo(stream)
	}}
	sent := func(_ context.Context, m proto.Message) bool { return m != nil }
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(chat, "chat:{metadata.x-group}").SkipIf(sent)))
	stream, err := c.Chat(metadata.AppendToOutgoingContext(bounded(t), "x-group", "7"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := stream.Recv(); err != nil || e.GetText() != "hello" {
		t.Error(e, err)
	}
	say(t, stream, "8")
	if e, err := stream.Recv(); err != nil || e.GetText() != "exclusive chat:7" || e.GetGroupId() != "8" {
		t.Error(e, err)
	}
}

// The caller's cancel is not a loss: Recv says what gRPC says.
func TestCancelWhileReceiving(t *testing.T) {
	entered, got := make(chan struct{}), make(chan error, 1)
	s := &server{chat: func(stream chatStream) error {
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

// RecvMsg runs in a goroutine of its own, where a panic, of a codec's or a validator's bug, would end
// the process.
func TestPanicInRecvMsgReachesRecovery(t *testing.T) {
	eng := memory(t)
	i := locks(t, eng, lockgrpc.Serialize(chat, "chat"))
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("recovered %v", p)
		}
		free(t, eng, "chat")
	}()
	stream := &fakeStream{ctx: bounded(t), recv: func(any) error { panic("boom") }}
	_ = i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: chat}, func(_ any, s grpc.ServerStream) error { return s.RecvMsg(nil) })
}

// The handler behind the lock may receive into any type, as long as it is the method's message.
func TestReceivingIntoAnotherType(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(watch, "group:{group_id}")).Stream()
	for _, m := range []any{&testpb.Event{}, new(string)} {
		stream := &fakeStream{ctx: bounded(t), recv: func(m any) error {
			m.(*testpb.WatchRequest).GroupId = "7"
			return nil
		}}
		err := i(nil, stream, &grpc.StreamServerInfo{FullMethod: watch}, func(_ any, s grpc.ServerStream) error { return s.RecvMsg(m) })
		if status.Code(err) != codes.Internal || reason(t, err) != reasons.Internal {
			t.Errorf("%T: %v", m, err)
		}
	}
}
