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
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// A lost lease ends the message's context, what is sent, the next Recv, and the
// call, whatever the handler makes of it.
func TestLossOfAMessagesLease(t *testing.T) {
	i := locks(t, memory(t), lockgrpc.SerializeMessages(chat, "chat", core.WithMaxHold(time.Millisecond)))
	ours := errors.New("ours")
	for _, own := range []error{nil, ours} {
		err := streamed(bounded(t), i, chat, comes, func(s grpc.ServerStream) error {
			wantNil(t, s.RecvMsg(&testpb.Event{}))
			<-s.Context().Done()
			wantIs(t, "SendMsg", s.SendMsg(nil), core.ErrLeaseLost)
			lost := s.RecvMsg(&testpb.Event{})
			if again := s.RecvMsg(&testpb.Event{}); again != lost || status.Code(lost) != codes.Aborted || !errors.Is(lost, core.ErrLeaseLost) {
				t.Errorf("RecvMsg: %v, then %v", lost, again)
			}
			sent := s.SendMsg(nil)
			check(t, sent == lost, "SendMsg: %v", sent)
			return own
		})
		if status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost || !errors.Is(err, core.ErrLeaseLost) || errors.Is(err, ours) != (own != nil) {
			t.Errorf("the handler returned %v, the call ends with %v", own, err)
		}
		answering := i.WithErrorHandler(func(context.Context, *reasons.Refusal) error { return status.Error(1503, "come again") })
		err = streamed(bounded(t), answering, chat, comes, func(s grpc.ServerStream) error {
			wantNil(t, s.RecvMsg(&testpb.Event{}))
			<-s.Context().Done()
			return own
		})
		check(t, status.Code(err) == 1503 && errors.Is(err, core.ErrLeaseLost) && errors.Is(err, ours) == (own != nil),
			"the handler returned %v, the ErrorHandler's call ends with %v", own, err)
	}
}

// A message that is refused ends the stream, also if the handler takes it for
// success; what the handler answers instead is its own affair.
func TestRefusedMessages(t *testing.T) {
	store := memstore.New()
	hold(t, store, "group:7")
	eng, rule := engine(t, store), lockgrpc.SerializeMessages(chat, "group:{group_id}", core.WithFailFast())
	for _, tt := range []struct {
		name, group string
		answer      func(error) error
		code        codes.Code
		reason      string
	}{
		{"held", "7", func(err error) error { return err }, codes.Aborted, reasons.LockHeld},
		{"held, answered", "7", func(error) error { return status.Error(codes.NotFound, "later") }, codes.NotFound, ""},
		{"no key, ignored", "", func(error) error { return nil }, codes.InvalidArgument, reasons.KeyInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{chat: func(stream chatStream) error {
				if e, err := stream.Recv(); err != nil || e.GetGroupId() != "8" {
					t.Error(e, err)
				}
				_, err := stream.Recv()
				check(t, err != nil, "%q has its turn", tt.group)
				_, again := stream.Recv()
				check(t, again == err, "the next Recv: %v, want %v again", again, err)
				if _, ok := core.LeaseFrom(stream.Context()); ok {
					t.Error("a lease, and no message")
				}
				return tt.answer(err)
			}}
			stream := talk(t, serve(t, s, locks(t, eng, rule)))
			say(t, stream, "8")
			say(t, stream, tt.group)
			_ = stream.Send(&testpb.Event{GroupId: "8"}) // never gets there
			if _, err := stream.Recv(); status.Code(err) != tt.code || reason(t, err) != tt.reason {
				t.Errorf("got %v, want %v for %s", err, tt.code, tt.reason)
			}
		})
	}
}

// A handler may leave a goroutine behind that receives. It gets no turn any more, and keeps none.
func TestReceiverThatOutlivesItsHandler(t *testing.T) {
	store := memstore.New()
	holder := hold(t, store, "group:7")
	eng, got := engine(t, store), make(chan error, 2)
	sent := make(chan struct{}) // both messages
	s := &server{chat: func(stream chatStream) error {
		receiving := make(chan struct{})
		go func() {
			_, err := stream.Recv()
			got <- err
			close(receiving)
			_, err = stream.Recv() // waits for the turn that holder has
			got <- err
		}()
		<-receiving
		<-sent
		return status.Error(codes.Unimplemented, "not interested")
	}}
	stream := talk(t, serve(t, s, locks(t, eng, eachByGroup)))
	say(t, stream, "8")
	say(t, stream, "7")
	close(sent)
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	wantNil(t, ruletest.Receive(t, "first message", got))
	if err := ruletest.Receive(t, "end of the second Recv", got); err == nil {
		t.Error("a turn for a call that is over")
	}
	wantNil(t, holder.Release(bounded(t)))
	free(t, eng, "group:7")
	free(t, eng, "group:8")
}
