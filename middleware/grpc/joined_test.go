package lockgrpc_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// TestSeveralRulesAreOneSet: the keys of all rules of a method are taken together, each in its mode,
// whatever order the rules stand in, and a rule may skip a call.
func TestSeveralRulesAreOneSet(t *testing.T) {
	eng := memory(t)
	skip := func(_ context.Context, m proto.Message) bool { return m.(*testpb.SetStatusRequest).GetUserId() == 9 }
	user := lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithMaxWait(5*time.Second)).SkipIf(skip)
	rules := []lockgrpc.Rule{
		user, lockgrpc.Serialize(setStatus, "all", core.WithShared()),
		lockgrpc.SerializeBy(setStatus, func(r *testpb.SetStatusRequest) string { return fmt.Sprintf("a/%d", r.GetUserId()) }, core.WithHierarchy()).SkipIf(skip),
	}
	var held []string
	guard := locks(t, eng, rules...)
	var srv *grpc.Server
	conn := start(t, guard, func(s *grpc.Server) {
		srv = s
		testpb.RegisterUsersServer(s, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			lease, _ := core.LeaseFrom(ctx)
			held = nil
			for _, c := range lease.Claims() {
				held = append(held, fmt.Sprint(c.Mode, " ", c.Key))
			}
			return &testpb.SetStatusResponse{}, nil
		}})
	})
	c := testpb.NewUsersClient(conn)
	for id, want := range map[int64][]string{
		1: {"shared a", "exclusive a/1", "shared all", "exclusive user:1"},
		9: {"shared all"},
	} {
		if _, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: id}); err != nil || !slices.Equal(held, want) {
			t.Errorf("user %d: held %q, want %q; %v", id, held, want, err)
		}
	}
	for _, target := range guard.Coverage(srv) {
		if target.Name == setStatus && target.String() != setStatus+": serialize user:{user_id} unless skipped, serialize shared all, serialize hierarchy func unless skipped" {
			t.Error(target)
		}
	}
}

// TestOnceWithTheContext: the key of Once may have what authentication has put into the context.
func TestOnceWithTheContext(t *testing.T) {
	auth := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(context.WithValue(ctx, caller{}, "ann"), req)
	})
	eng, ran := memory(t), 0
	key := func(ctx context.Context, r *testpb.SetStatusRequest) (string, error) {
		return fmt.Sprint("once:", ctx.Value(caller{}), ":", r.GetUserId()), nil
	}
	skip := func(_ context.Context, m proto.Message) bool { return m.(*testpb.SetStatusRequest).GetUserId() == 9 }
	c := serve(t, &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		ran++
		return &testpb.SetStatusResponse{}, nil
	}}, locks(t, eng, lockgrpc.OnceKey(setStatus, key).SkipIf(skip)), auth)
	for range 2 {
		for _, id := range []int64{1, 9} {
			if _, err := c.SetStatus(bounded(t), &testpb.SetStatusRequest{UserId: id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if info, err := eng.Inspect(bounded(t), "once:ann:1"); ran != 3 || err != nil || info.Record == nil {
		t.Errorf("ran %d times, %+v, %v", ran, info, err)
	}
}

// TestSkippedMessages: a rule for the messages of a stream shows each of them to its SkipIf, also if its key
// needs none of their fields.
func TestSkippedMessages(t *testing.T) {
	skip := func(_ context.Context, m proto.Message) bool { return m.(*testpb.Event).GetGroupId() == "9" }
	s := &server{chat: func(stream chatStream) error {
		for {
			e, err := stream.Recv()
			if err != nil {
				return err
			}
			held := core.AssertHeld(stream.Context(), core.Exclusive("chat")) == nil
			if err := stream.Send(&testpb.Event{GroupId: fmt.Sprint(e.GetGroupId(), held)}); err != nil {
				return err
			}
		}
	}}
	stream := talk(t, serve(t, s, locks(t, memory(t), lockgrpc.SerializeMessages(chat, "chat").SkipIf(skip))))
	for group, want := range map[string]string{"1": "1true", "9": "9false"} {
		say(t, stream, group)
		if e, err := stream.Recv(); err != nil || e.GetGroupId() != want {
			t.Errorf("got %v, %v, want %s", e, err, want)
		}
	}
}
