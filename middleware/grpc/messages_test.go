package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
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
					if err := core.AssertHeld(before, core.Exclusive(key)); err != nil {
						t.Error(err)
					}
					if _, err := eng.TryAcquire(context.Background(), key); !errors.Is(err, core.ErrHeld) {
						t.Errorf("in the handler: %v, want it held", err)
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

func TestEachMessageOfAClientStream(t *testing.T) {
	eng := memory(t)
	s := &server{importAll: func(stream grpc.ClientStreamingServer[testpb.ImportRequest, testpb.ImportResponse]) error {
		for n := int32(0); ; n++ {
			chunk, err := stream.Recv()
			if err == io.EOF {
				return stream.SendAndClose(&testpb.ImportResponse{Chunks: n})
			}
			if err != nil {
				return err
			}
			if err := core.AssertHeld(stream.Context(), core.Exclusive("import:"+chunk.GetGroupId())); err != nil {
				t.Error(err)
			}
		}
	}}
	c := serve(t, s, locks(t, eng, lockgrpc.SerializeMessages(importAll, "import:{group_id}")))
	stream, err := c.Import(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := stream.Send(&testpb.ImportRequest{GroupId: fmt.Sprint(i % 2)}); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := stream.CloseAndRecv(); err != nil || resp.GetChunks() != 5 {
		t.Error(resp, err)
	}
}

// Many streams, few keys: never two messages of one key at a time, and every
// message is processed.
func TestMessagesOfManyStreamsTakeTurns(t *testing.T) {
	const streams, messages, keys = 20, 30, 3
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
	eng := memory(t)
	c := serve(t, s, locks(t, eng, eachByGroup["template"]))
	var all sync.WaitGroup
	for n := range streams {
		stream := talk(t, c)
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
	for name, end := range map[string]func() error{
		"success": func() error { return nil },
		"error":   func() error { return status.Error(codes.NotFound, "no group 7") },
		"panic":   func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			eng := memory(t)
			var own atomic.Value
			s := &server{chat: func(stream chatStream) error {
				if _, err := stream.Recv(); err != nil {
					t.Error(err)
				}
				own.Store(core.AssertHeld(stream.Context(), core.Exclusive("group:7")) == nil)
				return end()
			}}
			stream := talk(t, serve(t, s, locks(t, eng, eachByGroup["template"]), grpc.ChainStreamInterceptor(recoverStream)))
			say(t, stream, "7")
			_, err := stream.Recv()
			want := map[string]codes.Code{"error": codes.NotFound, "panic": codes.Internal}[name]
			if want == codes.OK && err != io.EOF || want != codes.OK && status.Code(err) != want {
				t.Errorf("the client got %v", err)
			}
			free(t, eng, "group:7")
			if own.Load() != true {
				t.Error("it was not held while the handler ran")
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

func TestMessagesRunUnlockedOnlyWhereTheRuleSaysSo(t *testing.T) {
	outage := &core.UnavailableError{Op: "acquire", Err: errors.New("connection refused")}
	for want, opts := range map[string][]core.CallOption{
		"unlocked":               {core.WithRunUnlocked()},
		reasons.StoreUnavailable: nil,
	} {
		s := &server{chat: func(stream chatStream) error {
			for {
				e, err := stream.Recv()
				if err != nil {
					return err
				}
				if _, ok := core.LeaseFrom(stream.Context()); ok {
					t.Error("a lease in an outage")
				}
				e.Text = "unlocked"
				if err := stream.Send(e); err != nil {
					return err
				}
			}
		}}
		eng := engine(t, refusing{memstore.New(), outage})
		stream := talk(t, serve(t, s, locks(t, eng, lockgrpc.SerializeMessages(chat, "group:{group_id}", opts...))))
		say(t, stream, "7")
		e, err := stream.Recv()
		if got := e.GetText() + reason(t, err); got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func TestNewRefusesRulesForMessages(t *testing.T) {
	for _, tt := range []struct {
		rule lockgrpc.Rule
		want string
	}{
		{lockgrpc.SerializeMessages(setStatus, "k"), "the client sends only one message"},
		{lockgrpc.SerializeMessages(watch, "{group_id}"), "the client sends only one message"},
		{lockgrpc.SerializeMessages(chat, "{id}"), `no field "id"`},
		{lockgrpc.SerializeMessagesBy[*testpb.Event](chat, nil), "the key function is nil"},
		{lockgrpc.SerializeMessagesBy(chat, func(*testpb.Group) string { return "k" }), "takes *testpb.Group, the method *testpb.Event"},
	} {
		if _, err := lockgrpc.New(memory(t), tt.rule); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want %q", err, tt.want)
		}
	}
}
