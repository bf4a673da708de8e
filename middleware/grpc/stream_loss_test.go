package lockgrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
