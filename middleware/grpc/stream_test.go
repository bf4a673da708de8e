package lockgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
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

// The handler hangs in a Recv for a client that says nothing.
func TestLossEndsAWaitingRecv(t *testing.T) {
	s := &server{chat: func(stream chatStream) error {
		e, err := stream.Recv()
		if status.Code(err) != codes.Aborted || !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("Recv: %v, %v", e, err)
		}
		// It stays that way, and nothing goes out any more.
		if err := stream.RecvMsg(&testpb.Event{}); !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("second Recv: %v", err)
		}
		if err := stream.Send(&testpb.Event{Text: "stale"}); !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("Send: %v", err)
		}
		return nil
	}}
	stream := talk(t, serve(t, s, locks(t, memory(t), lockgrpc.Serialize(chat, "chat", core.WithMaxHold(20*time.Millisecond)))))
	if e, err := stream.Recv(); status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
		t.Errorf("the client got %v, %v", e, err)
	}
}

// A message that comes after the loss does not reach the handler, nor does the one that the key was made of.
func TestLossBeforeTheFirstMessage(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(watch, "group:{group_id}", core.WithMaxHold(time.Millisecond)))
	stream := &fakeStream{ctx: bounded(t), recv: func(m any) error {
		m.(*testpb.WatchRequest).GroupId = "7"
		return nil
	}}
	err := i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: watch}, func(_ any, s grpc.ServerStream) error {
		<-s.Context().Done()
		if err := s.RecvMsg(&testpb.WatchRequest{}); !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("RecvMsg: %v", err)
		}
		return nil
	})
	if reason(t, err) != reasons.LeaseLost {
		t.Error(err)
	}
}

// The message and the loss come at the same time: it is the loss that counts.
func TestLossWhileAMessageArrives(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(chat, "chat", core.WithMaxHold(time.Millisecond)))
	for range 20 {
		arrive := make(chan struct{})
		stream := &fakeStream{ctx: bounded(t), recv: func(any) error { <-arrive; return nil }}
		err := i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: chat}, func(_ any, s grpc.ServerStream) error {
			context.AfterFunc(s.Context(), func() { close(arrive) })
			if err := s.RecvMsg(nil); !errors.Is(err, core.ErrLeaseLost) {
				t.Errorf("RecvMsg: %v", err)
			}
			return nil
		})
		if reason(t, err) != reasons.LeaseLost {
			t.Error(err)
		}
	}
}

// Work that may go on after a loss may also go on receiving.
func TestStreamWithoutCancelOnLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		eng := engine(t, store)
		i := locks(t, eng, lockgrpc.Serialize(chat, "chat", core.WithoutCancelOnLoss(), core.WithTTL(time.Second)))
		stream := &fakeStream{ctx: t.Context(), recv: func(any) error { return nil }}
		err := i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: chat}, func(_ any, s grpc.ServerStream) error {
			steal(t, store, s.Context())
			time.Sleep(time.Minute) // a renewal notices
			if err := errors.Join(s.RecvMsg(nil), s.SendMsg(nil)); err != nil {
				t.Error(err)
			}
			return nil
		})
		if reason(t, err) != reasons.LeaseLost {
			t.Error(err)
		}
	})
}

// A context that an interceptor ended says nothing about the connection: what
// the stream still brings and takes is the handler's, as it is without a rule.
func TestEndOfTheContextIsNotALoss(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(chat, "chat"))
	ctx, cancel := context.WithCancel(bounded(t))
	stream := &fakeStream{ctx: ctx, recv: func(any) error { return nil }}
	err := i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: chat}, func(_ any, s grpc.ServerStream) error {
		cancel()
		return errors.Join(s.RecvMsg(nil), s.SendMsg(nil))
	})
	if err != nil {
		t.Error(err)
	}
}
