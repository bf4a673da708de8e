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
	"github.com/keyturn/keyturn/store/memstore"
)

// The handler hangs in a Recv for a client that says nothing.
func TestLossEndsAWaitingRecv(t *testing.T) {
	s := &server{chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
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
	eng := memory(t)
	c := serve(t, s, locks(t, eng, lockgrpc.Serialize(chat, "chat:{metadata.x-group}", core.WithMaxHold(20*time.Millisecond))))
	stream, err := c.Chat(inGroup(t))
	if err != nil {
		t.Fatal(err)
	}
	e, err := stream.Recv()
	if status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
		t.Errorf("the client got %v, %v", e, err)
	}
}

// A message that comes after the loss does not reach the handler, whichever of
// the two it sees first.
func TestLossBeforeAMessage(t *testing.T) {
	lost, sent := make(chan struct{}), make(chan struct{})
	s := &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
		<-stream.Context().Done()
		close(lost)
		<-sent
		if chunk, err := stream.Recv(); !errors.Is(err, core.ErrLeaseLost) {
			t.Errorf("Recv: %v, %v", chunk, err)
		}
		return stream.SendAndClose(&testpb.ImportResponse{})
	}}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Serialize(importAll, "import:{group_id}", core.WithMaxHold(20*time.Millisecond))))
	stream, err := c.Import(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stream.Send(&testpb.ImportRequest{GroupId: "7"}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, lost, "loss")
	close(sent)
	if _, err := stream.CloseAndRecv(); reason(t, err) != reasons.LeaseLost {
		t.Error(err)
	}
}

// The message and the loss come at the same time: it is the loss that counts.
func TestLossWhileAMessageArrives(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(chat, "chat", core.WithMaxHold(time.Millisecond)))
	for range 20 {
		arrive := make(chan struct{})
		stream := &fakeStream{ctx: bounded(t), recv: func() error { <-arrive; return nil }}
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
	store := memstore.New()
	s := &server{chat: func(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
		steal(t, store, stream.Context())
		lease, _ := core.LeaseFrom(stream.Context())
		for lease.Err() == nil { // until a renewal notices
			time.Sleep(time.Millisecond)
		}
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		return stream.Send(e)
	}}
	c := serve(t, s, locks(t, engine(t, store), lockgrpc.Serialize(chat, "chat", core.WithoutCancelOnLoss(), core.WithTTL(30*time.Millisecond))))
	stream, err := c.Chat(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&testpb.Event{Text: "late"}); err != nil {
		t.Fatal(err)
	}
	if e, err := stream.Recv(); err != nil || e.GetText() != "late" {
		t.Error(e, err)
	}
	if _, err := stream.Recv(); reason(t, err) != reasons.LeaseLost {
		t.Error(err)
	}
}

// A context that an interceptor ended says nothing about the connection: what
// the stream still brings and takes is the handler's, as it is without a rule.
func TestEndOfTheContextIsNotALoss(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.Serialize(chat, "chat"))
	ctx, cancel := context.WithCancel(bounded(t))
	stream := &fakeStream{ctx: ctx, recv: func() error { return nil }}
	err := i.Stream()(nil, stream, &grpc.StreamServerInfo{FullMethod: chat}, func(_ any, s grpc.ServerStream) error {
		cancel()
		return errors.Join(s.RecvMsg(nil), s.SendMsg(nil))
	})
	if err != nil {
		t.Error(err)
	}
}
