package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

type chatStream = grpc.BidiStreamingServer[testpb.Event, testpb.Event]

var eachByGroup = lockgrpc.SerializeMessages(chat, "group:{group_id}")

func talk(t *testing.T, c client) grpc.BidiStreamingClient[testpb.Event, testpb.Event] {
	t.Helper()
	stream, err := c.Chat(bounded(t))
	must(t, err)
	return stream
}

func say(t *testing.T, stream grpc.BidiStreamingClient[testpb.Event, testpb.Event], group string) {
	t.Helper()
	wantNil(t, stream.Send(&testpb.Event{GroupId: group}))
}

// echo answers each message with what it is locked by, and stops with its client.
func echo(stream chatStream) error {
	for {
		e, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.Event{GroupId: e.GetGroupId(), Text: claimsOf(stream.Context())}); err != nil {
			return err
		}
	}
}

// Each message runs under its own key, and the context says so. It ends with its turn.
func TestEachMessageTakesItsOwnTurn(t *testing.T) {
	for name, rule := range map[string]lockgrpc.Rule{
		"template": eachByGroup,
		"function": lockgrpc.SerializeMessagesBy(chat, func(e *testpb.Event) string { return "group:" + e.GetGroupId() }),
	} {
		t.Run(name, func(t *testing.T) {
			eng := memory(t)
			s := &server{chat: func(stream chatStream) error {
				before, token := stream.Context(), uint64(0)
				if held := claimsOf(before); held != "" {
					t.Errorf("%s is held before the first message", held)
				}
				for {
					e, err := stream.Recv()
					check(t, token <= 0 || errors.Is(context.Cause(before), core.ErrReleased), "the context of the message before: %v", context.Cause(before))
					if err != nil {
						if held := claimsOf(stream.Context()); held != "" || err != io.EOF {
							t.Errorf("%s is held after the last message, %v", held, err)
						}
						return nil
					}
					runtime.LockOSThread() // as for a library in C
					defer runtime.UnlockOSThread()
					before = stream.Context()
					lease, ok := core.LeaseFrom(before)
					check(t, ok && lease.Key() == "group:"+e.GetGroupId() && lease.Token() > token && isHeld(t, eng, lease.Key()), "lease: %v %+v", ok, lease)
					token = lease.Token()
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
			wantNil(t, stream.CloseSend())
			if _, err := stream.Recv(); err != io.EOF {
				t.Error(err)
			}
		})
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
				wantNil(t, stream.Send(&testpb.Event{Text: fmt.Sprint(i)}))
			}
		})
		for {
			if _, err := stream.Recv(); err != nil {
				return nil
			}
		}
	}}
	stream := talk(t, serve(t, s, locks(t, memory(t), eachByGroup)))
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

// A rule for the messages of a stream shows each of them to its SkipIf, also if its key needs none of their fields.
func TestSkippedMessages(t *testing.T) {
	skip := func(_ context.Context, m proto.Message) bool { return m.(*testpb.Event).GetGroupId() == "9" }
	stream := talk(t, serve(t, &server{chat: echo}, locks(t, memory(t), lockgrpc.SerializeMessages(chat, "chat").SkipIf(skip))))
	for group, want := range map[string]string{"1": "exclusive chat", "9": ""} {
		say(t, stream, group)
		e, err := stream.Recv()
		check(t, err == nil && e.GetText() == want, "got %v, %v, want %s", e, err, want)
	}
}
