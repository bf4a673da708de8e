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

// A handler that takes its context before it receives has the lease in it, and gets every message.
func TestClientStreamHasTheLeaseFromTheStart(t *testing.T) {
	eng := memory(t)
	s := &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
		held := claimsOf(stream.Context())
		check(t, held == "exclusive import:7" && isHeld(t, eng, "import:7"), "%q is held before the first message", held)
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
	must(t, err)
	for i := range byte(5) {
		must(t, stream.Send(&testpb.ImportRequest{GroupId: "7", Chunk: []byte{i}}))
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
	must(t, err)
	if e, err := stream.Recv(); err != nil || e.GetText() != "hello" {
		t.Error(e, err)
	}
	say(t, stream, "8")
	if e, err := stream.Recv(); err != nil || e.GetText() != "exclusive chat:7" || e.GetGroupId() != "8" {
		t.Error(e, err)
	}
}

// streamed runs handler on a stream without a connection.
func streamed(ctx context.Context, i *lockgrpc.Interceptor, method string, recv func(any) error, handler func(grpc.ServerStream) error) error {
	stream := &fakeStream{ctx: ctx, recv: recv}
	return i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: method}, func(_ any, s grpc.ServerStream) error { return handler(s) })
}

// comes is a message that comes at once. A request to watch is one for group 7.
func comes(m any) error {
	if request, ok := m.(*testpb.WatchRequest); ok {
		request.GroupId = "7"
	}
	return nil
}

// RecvMsg runs in a goroutine of its own, where a panic, of a codec's or a validator's bug, would end the process.
func TestPanicInRecvMsgReachesRecovery(t *testing.T) {
	eng := memory(t)
	defer func() {
		p := recover()
		check(t, p == "boom", "recovered %v", p)
		free(t, eng, "chat")
	}()
	_ = streamed(bounded(t), locks(t, eng, lockgrpc.Serialize(chat, "chat")), chat, func(any) error { panic("boom") },
		func(s grpc.ServerStream) error { return s.RecvMsg(nil) })
}

// The handler behind the lock may receive into any type, as long as it is the method's message.
func TestReceivingIntoAnotherType(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(watch, "group:{group_id}"))
	for _, m := range []any{&testpb.Event{}, new(string)} {
		err := streamed(bounded(t), i, watch, comes, func(s grpc.ServerStream) error { return s.RecvMsg(m) })
		check(t, status.Code(err) == codes.Internal && reason(t, err) == reasons.Internal, "%T: %v", m, err)
	}
}

// The handler hangs in a Recv for a client that says nothing.
func TestLossEndsAWaitingRecv(t *testing.T) {
	s := &server{chat: func(stream chatStream) error {
		e, err := stream.Recv()
		check(t, status.Code(err) == codes.Aborted && errors.Is(err, core.ErrLeaseLost), "Recv: %v, %v", e, err)
		// It stays that way, and nothing goes out any more.
		for _, err := range []error{stream.RecvMsg(&testpb.Event{}), stream.Send(&testpb.Event{Text: "stale"})} {
			check(t, errors.Is(err, core.ErrLeaseLost), "then: %v", err)
		}
		return nil
	}}
	stream := talk(t, serve(t, s, locks(t, memory(t), lockgrpc.Serialize(chat, "chat", core.WithMaxHold(20*time.Millisecond)))))
	if e, err := stream.Recv(); status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
		t.Errorf("the client got %v, %v", e, err)
	}
}

// A message that comes after the loss does not reach the handler, nor does the one that the key was made of. If both
// come at the same time it is the loss that counts.
func TestLossBeforeAMessage(t *testing.T) {
	soon := core.WithMaxHold(time.Millisecond)
	i := locks(t, memory(t), lockgrpc.Serialize(watch, "group:{group_id}", soon), lockgrpc.Serialize(chat, "chat", soon))
	received := func(s grpc.ServerStream, m any) error {
		wantIs(t, "RecvMsg", s.RecvMsg(m), core.ErrLeaseLost)
		return nil
	}
	ends := []error{streamed(bounded(t), i, watch, comes, func(s grpc.ServerStream) error {
		<-s.Context().Done()
		return received(s, &testpb.WatchRequest{})
	})}
	for range 20 {
		arrive := make(chan struct{})
		ends = append(ends, streamed(bounded(t), i, chat, func(any) error { <-arrive; return nil }, func(s grpc.ServerStream) error {
			context.AfterFunc(s.Context(), func() { close(arrive) })
			return received(s, nil)
		}))
	}
	for _, err := range ends {
		if reason(t, err) != reasons.LeaseLost {
			t.Error(err)
		}
	}
}

// Work that may go on after a loss may also go on receiving.
func TestStreamWithoutCancelOnLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		i := locks(t, engine(t, store), lockgrpc.Serialize(chat, "chat", core.WithoutCancelOnLoss(), core.WithTTL(time.Second)))
		err := streamed(t.Context(), i, chat, comes, func(s grpc.ServerStream) error {
			steal(t, store, s.Context())
			time.Sleep(time.Minute) // a renewal notices
			wantNil(t, errors.Join(s.RecvMsg(nil), s.SendMsg(nil)))
			return nil
		})
		if reason(t, err) != reasons.LeaseLost {
			t.Error(err)
		}
	})
}

// The end of the context, by the caller's cancel or an interceptor, is not a loss: what the stream still brings and
// takes is the handler's, as it is without a rule.
func TestEndOfTheContextIsNotALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		gone := status.Error(codes.Canceled, "gone")
		err := streamed(ctx, locks(t, memory(t), lockgrpc.Serialize(chat, "chat")), chat, func(any) error {
			cancel()
			time.Sleep(time.Second) // the handler's end of the stream sees the end of the context first
			return gone
		}, func(s grpc.ServerStream) error {
			if err := s.RecvMsg(nil); err != gone {
				t.Errorf("RecvMsg: %v", err)
			}
			return s.SendMsg(nil)
		})
		wantNil(t, err)
	})
}
