package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

type chatStream = grpc.BidiStreamingServer[testpb.Event, testpb.Event]

var eachByGroup = map[string]lockgrpc.Rule{
	"template": lockgrpc.SerializeMessages(chat, "group:{group_id}"),
	"function": lockgrpc.SerializeMessagesBy(chat, func(e *testpb.Event) string { return "group:" + e.GetGroupId() }),
}

// talk opens a chat.
func talk(t *testing.T, c client) grpc.BidiStreamingClient[testpb.Event, testpb.Event] {
	t.Helper()
	stream, err := c.Chat(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func say(t *testing.T, stream grpc.BidiStreamingClient[testpb.Event, testpb.Event], group string) {
	t.Helper()
	if err := stream.Send(&testpb.Event{GroupId: group}); err != nil {
		t.Error(err)
	}
}

// Each message runs under its own key, and the context says so.
func TestEachMessageTakesItsOwnTurn(t *testing.T) {
	for name, rule := range eachByGroup {
		t.Run(name, func(t *testing.T) {
			eng := memory(t)
			s := &server{chat: func(stream chatStream) error {
				if _, ok := core.LeaseFrom(stream.Context()); ok {
					t.Error("a lease before the first message")
				}
				var before context.Context
				var token uint64
				for {
					e, err := stream.Recv()
					if before != nil && !errors.Is(context.Cause(before), core.ErrReleased) {
						t.Errorf("the context of the message before: %v", context.Cause(before))
					}
					if err == io.EOF {
						if _, ok := core.LeaseFrom(stream.Context()); ok {
							t.Error("a lease after the last message")
						}
						return nil
					}
					if err != nil {
						return err
					}
					before = stream.Context()
					key := "group:" + e.GetGroupId()
					lease, ok := core.LeaseFrom(before)
					if !ok || lease.Key() != key || lease.Token() <= token {
						t.Errorf("lease: %v %+v", ok, lease)
					}
					token = lease.Token()
					if !isHeld(t, eng, key) {
						t.Error("free in the handler")
					}
					if err := stream.Send(e); err != nil {
						return err
					}
				}
			}}
			stream := talk(t, serve(t, s, locks(t, eng, rule)))
			for _, group := range []string{"1", "2", "1"} {
				say(t, stream, group)
				if e, err := stream.Recv(); err != nil || e.GetGroupId() != group {
					t.Error(e, err)
				}
				free(t, eng, "group:"+group) // the client is silent, and nothing is held
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err != io.EOF {
				t.Error(err)
			}
		})
	}
}

// Many streams to two replicas, which share nothing but a store, and few keys: never two messages
// of one key at a time, and every message is processed.
func TestMessagesOfManyStreamsTakeTurns(t *testing.T) {
	const streams, messages, keys = 8, 15, 3
	var inside [keys]atomic.Int32
	var counts [keys]int // what the lock protects; the race detector looks too
	s := &server{chat: func(stream chatStream) error {
		for {
			e, err := stream.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			key := int(e.GetGroupId()[0] - '0')
			if n := inside[key].Add(1); n > 1 {
				t.Errorf("%d messages at a time", n)
			}
			counts[key]++
			inside[key].Add(-1)
		}
	}}
	store := memstore.New()
	eng := engine(t, store)
	replicas := []client{
		serve(t, s, locks(t, eng, eachByGroup["template"])),
		serve(t, s, locks(t, engine(t, store.Peer()), eachByGroup["template"])),
	}
	var all sync.WaitGroup
	for n := range streams {
		stream := talk(t, replicas[n%2])
		all.Go(func() {
			for i := range messages {
				say(t, stream, fmt.Sprint((n+i)%keys))
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err != io.EOF {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for key := range keys {
		free(t, eng, fmt.Sprint("group:", key))
		if counts[key] != streams*messages/keys {
			t.Errorf("key %d: %d messages", key, counts[key])
		}
	}
}

// However a handler ends, its last message's turn ends with it.
func TestHandlersEndEndsTheTurn(t *testing.T) {
	for _, own := range []error{nil, status.Error(codes.NotFound, "no group 7")} {
		eng := memory(t)
		s := &server{chat: func(stream chatStream) error {
			if _, err := stream.Recv(); err != nil {
				t.Error(err)
			}
			return own
		}}
		stream := talk(t, serve(t, s, locks(t, eng, eachByGroup["template"])))
		say(t, stream, "7")
		if _, err := stream.Recv(); own == nil && err != io.EOF || own != nil && status.Code(err) != codes.NotFound {
			t.Errorf("the handler returned %v, the client got %v", own, err)
		}
		free(t, eng, "group:7")
	}
}

// One goroutine sends, one receives: as gRPC allows.
func TestSendingAlongside(t *testing.T) {
	s := &server{chat: func(stream chatStream) error {
		var sender sync.WaitGroup
		defer sender.Wait()
		sender.Go(func() {
			for i := range 100 {
				_ = stream.Context().Err()
				if err := stream.Send(&testpb.Event{Text: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
		for {
			if _, err := stream.Recv(); err != nil {
				return nil
			}
		}
	}}
	stream := talk(t, serve(t, s, locks(t, memory(t), eachByGroup["template"])))
	for i := range 100 {
		say(t, stream, fmt.Sprint(i%3))
		if e, err := stream.Recv(); err != nil || e.GetText() != fmt.Sprint(i) {
			t.Fatal(e, err)
		}
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
}

// A rule for the messages of a stream shows each of them to its SkipIf, also if its key needs none
// of their fields.
func TestSkippedMessages(t *testing.T) {
	skip := func(_ context.Context, m proto.Message) bool { return m.(*testpb.Event).GetGroupId() == "9" }
	s := &server{chat: func(stream chatStream) error {
		for {
			e, err := stream.Recv()
			if err != nil {
				return err
			}
			if err := stream.Send(&testpb.Event{Text: e.GetGroupId() + " " + claimsOf(stream.Context())}); err != nil {
				return err
			}
		}
	}}
	stream := talk(t, serve(t, s, locks(t, memory(t), lockgrpc.SerializeMessages(chat, "chat").SkipIf(skip))))
	for group, want := range map[string]string{"1": "1 exclusive chat", "9": "9 "} {
		say(t, stream, group)
		if e, err := stream.Recv(); err != nil || e.GetText() != want {
			t.Errorf("got %v, %v, want %s", e, err, want)
		}
	}
}
