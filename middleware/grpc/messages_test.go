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

// A lost lease ends the message's context, what is sent, the next Recv, and the
// call, whatever the handler makes of it.
func TestLossOfAMessagesLease(t *testing.T) {
	ours := errors.New("ours")
	for name, after := range map[string]func(chatStream) error{
		"returns success": func(chatStream) error { return nil },
		"returns an error": func(chatStream) error {
			return ours
		},
		"asks for more": func(stream chatStream) error {
			_, err := stream.Recv()
			if status.Code(err) != codes.Aborted || !errors.Is(err, core.ErrLeaseLost) {
				t.Errorf("Recv: %v", err)
			}
			if again := stream.RecvMsg(&testpb.Event{}); again != err {
				t.Errorf("second Recv: %v", again)
			}
			if sent := stream.Send(&testpb.Event{}); sent != err {
				t.Errorf("Send: %v", sent)
			}
			return err
		},
		"asks for more, returns success": func(stream chatStream) error {
			_, _ = stream.Recv()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{chat: func(stream chatStream) error {
				if _, err := stream.Recv(); err != nil {
					t.Error(err)
				}
				ctx := stream.Context()
				<-ctx.Done()
				if err := stream.Send(&testpb.Event{Text: "stale"}); !errors.Is(err, core.ErrLeaseLost) {
					t.Errorf("Send: %v", err)
				}
				return after(stream)
			}}
			outside := make(chan error, 1)
			watching := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				err := handler(srv, stream)
				outside <- err
				return err
			}
			rule := lockgrpc.SerializeMessages(chat, "group:{group_id}", core.WithMaxHold(20*time.Millisecond))
			stream := talk(t, serve(t, s, locks(t, memory(t), rule), grpc.ChainStreamInterceptor(watching)))
			say(t, stream, "7")
			_ = stream.Send(&testpb.Event{GroupId: "8"}) // maybe too late
			if e, err := stream.Recv(); status.Code(err) != codes.Aborted || reason(t, err) != reasons.LeaseLost {
				t.Errorf("the client got %v, %v", e, err)
			}
			if err := wait(t, outside, "end"); !errors.Is(err, core.ErrLeaseLost) || errors.Is(err, ours) != (name == "returns an error") {
				t.Errorf("outer interceptors see %v", err)
			}
		})
	}
}

// A lease that is lost unnoticed while the handler is at work is found when its
// turn ends.
func TestLossThatOnlyTheReleaseFinds(t *testing.T) {
	store := memstore.New()
	s := &server{chat: func(stream chatStream) error {
		if _, err := stream.Recv(); err != nil {
			t.Error(err)
		}
		steal(t, store, stream.Context())
		return nil
	}}
	stream := talk(t, serve(t, s, locks(t, engine(t, store), eachByGroup["template"])))
	say(t, stream, "7")
	if _, err := stream.Recv(); reason(t, err) != reasons.LeaseLost {
		t.Error(err)
	}
}

// A message that is refused ends the stream, also if the handler takes it for
// success; what the handler answers instead is its own affair.
func TestRefusedMessages(t *testing.T) {
	store := memstore.New()
	holder, err := engine(t, store).Acquire(bounded(t), "group:7")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release(context.Background())
	eng, rule := engine(t, store), lockgrpc.SerializeMessages(chat, "group:{group_id}", core.WithFailFast())
	for _, tt := range []struct {
		name, group string
		answer      func(error) error
		code        codes.Code
		reason      string
	}{
		{"held", "7", func(err error) error { return err }, codes.Aborted, reasons.LockHeld},
		{"held, ignored", "7", func(error) error { return nil }, codes.Aborted, reasons.LockHeld},
		{"held, answered", "7", func(error) error { return status.Error(codes.NotFound, "later") }, codes.NotFound, ""},
		{"no key", "", func(err error) error { return err }, codes.InvalidArgument, reasons.KeyInvalid},
		{"no key, ignored", "", func(error) error { return nil }, codes.InvalidArgument, reasons.KeyInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{chat: func(stream chatStream) error {
				if e, err := stream.Recv(); err != nil || e.GetGroupId() != "8" {
					t.Error(e, err)
				}
				_, err := stream.Recv()
				if err == nil {
					t.Errorf("%q has its turn", tt.group)
				}
				if _, again := stream.Recv(); again != err {
					t.Errorf("the next Recv: %v, want %v again", again, err)
				}
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

// A handler may leave a goroutine behind that receives. It gets no turn any
// more, and keeps none.
func TestReceiverThatOutlivesItsHandler(t *testing.T) {
	store := memstore.New()
	holder, err := engine(t, store).Acquire(bounded(t), "group:7")
	if err != nil {
		t.Fatal(err)
	}
	eng, got := engine(t, store), make(chan error, 2)
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
		return status.Error(codes.Unimplemented, "not interested")
	}}
	stream := talk(t, serve(t, s, locks(t, eng, eachByGroup["template"])))
	say(t, stream, "8")
	say(t, stream, "7")
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	if err := wait(t, got, "first message"); err != nil {
		t.Error(err)
	}
	if err := wait(t, got, "end of the second Recv"); err == nil {
		t.Error("a turn for a call that is over")
	}
	if err := holder.Release(bounded(t)); err != nil {
		t.Error(err)
	}
	free(t, eng, "group:7")
	free(t, eng, "group:8")
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
