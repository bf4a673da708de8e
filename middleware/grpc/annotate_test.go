package lockgrpc_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// annotated answers each call with the rule and the key it ran under.
type annotated struct {
	testpb.UnimplementedAnnotatedServer
	ttl chan time.Duration // of each lease, if not nil
}

func (a *annotated) answer(ctx context.Context) (*testpb.SetStatusResponse, error) {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return &testpb.SetStatusResponse{Text: "unlocked"}, nil
	}
	if a.ttl != nil {
		a.ttl <- lease.TTL()
	}
	return &testpb.SetStatusResponse{Text: leaseSeen(ctx).Rule() + " " + lease.Key()}, nil
}

func (a *annotated) SetStatus(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	return a.answer(ctx)
}

func (a *annotated) Send(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	return a.answer(ctx)
}

func (a *annotated) ClearStatus(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	return a.answer(ctx)
}

func (a *annotated) Get(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	return a.answer(ctx)
}

func (a *annotated) Watch(_ *testpb.WatchRequest, stream grpc.ServerStreamingServer[testpb.Event]) error {
	answer, err := a.answer(stream.Context())
	if err != nil {
		return err
	}
	return stream.Send(&testpb.Event{Text: answer.GetText()})
}

func (a *annotated) Chat(stream grpc.BidiStreamingServer[testpb.Event, testpb.Event]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		answer, err := a.answer(stream.Context())
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.Event{Text: answer.GetText()}); err != nil {
			return err
		}
	}
}

func serveAnnotated(t *testing.T, a *annotated, eng *core.Engine, rules ...lockgrpc.Rule) testpb.AnnotatedClient {
	t.Helper()
	i := locks(t, eng, rules...)
	srv := grpc.NewServer(grpc.UnaryInterceptor(i.Unary()), grpc.StreamInterceptor(i.Stream()))
	testpb.RegisterAnnotatedServer(srv, a)
	return dial(t, listen(t, srv)).annotated
}

// fromProto are the annotations of the service that annotated is.
var fromProto = lockgrpc.FromAnnotations(&testpb.Annotated_ServiceDesc)

func TestAnnotatedMethodsHaveTheirRules(t *testing.T) {
	eng := memory(t, core.WithHooks(seeLeases))
	c := serveAnnotated(t, &annotated{}, eng, fromProto)
	ctx := metadata.AppendToOutgoingContext(bounded(t), "x-user", "alice")
	type call func(context.Context, *testpb.SetStatusRequest, ...grpc.CallOption) (*testpb.SetStatusResponse, error)
	for name, tt := range map[string]struct {
		call call
		want string
	}{
		"lock":              {c.SetStatus, "user-status user:42"},
		"another, one name": {c.ClearStatus, "user-status user:42"},
		"once":              {c.Send, testpb.Annotated_Send_FullMethodName + " once:alice:8f2c"},
		"none":              {c.Get, "unlocked"},
	} {
		request := &testpb.SetStatusRequest{UserId: 42, MessageId: "8f2c"}
		if resp, err := tt.call(ctx, request); err != nil || resp.GetText() != tt.want {
			t.Errorf("%s: %v, %v; want %q", name, resp, err, tt.want)
		}
	}
	var header metadata.MD
	resp, err := c.Send(ctx, &testpb.SetStatusRequest{UserId: 42, MessageId: "8f2c"}, grpc.Header(&header))
	if err != nil || resp.GetText() == "" || len(header.Get(lockgrpc.ReplayedHeader)) != 1 {
		t.Errorf("the repeat: %v, %v, %v", resp, err, header)
	}
	stream, err := c.Watch(ctx, &testpb.WatchRequest{GroupId: "7"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := stream.Recv(); err != nil || e.GetText() != testpb.Annotated_Watch_FullMethodName+" group:7" {
		t.Error(e, err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
	each, err := c.Chat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"7", "8"} {
		if err := each.Send(&testpb.Event{GroupId: group}); err != nil {
			t.Fatal(err)
		}
		if e, err := each.Recv(); err != nil || e.GetText() != testpb.Annotated_Chat_FullMethodName+" group:"+group {
			t.Error(e, err)
		}
	}
	if _, err := c.SetStatus(ctx, &testpb.SetStatusRequest{}); reason(t, err) != reasons.KeyInvalid {
		t.Errorf("without a key: %v", err)
	}
}

// A policy is found by the rule's name, and the method's own goes before it,
// wherever they stand.
func TestConfigure(t *testing.T) {
	a := &annotated{ttl: make(chan time.Duration, 1)}
	c := serveAnnotated(t, a, memory(t, core.WithHooks(seeLeases), core.WithTTL(time.Minute)),
		lockgrpc.Configure(testpb.Annotated_ClearStatus_FullMethodName, core.WithTTL(7*time.Second)),
		fromProto,
		lockgrpc.Configure("user-status", core.WithTTL(5*time.Second), core.WithFailFast()),
		lockgrpc.Configure(testpb.Annotated_Send_FullMethodName, core.WithTTL(9*time.Second)),
	)
	ctx := metadata.AppendToOutgoingContext(bounded(t), "x-user", "alice")
	request := &testpb.SetStatusRequest{UserId: 42, MessageId: "8f2c"}
	for _, tt := range []struct {
		call func(context.Context, *testpb.SetStatusRequest, ...grpc.CallOption) (*testpb.SetStatusResponse, error)
		want time.Duration
	}{
		{c.SetStatus, 5 * time.Second},
		{c.ClearStatus, 7 * time.Second},
		{c.Send, 9 * time.Second},
	} {
		if _, err := tt.call(ctx, request); err != nil {
			t.Fatal(err)
		}
		if got := <-a.ttl; got != tt.want {
			t.Errorf("TTL %v, want %v", got, tt.want)
		}
	}
}

// A rule in Go takes the annotation's place: its key, its policy, its kind.
func TestGoOverridesAnnotations(t *testing.T) {
	store := memstore.New()
	c := serveAnnotated(t, &annotated{}, engine(t, store, core.WithHooks(seeLeases)),
		fromProto,
		lockgrpc.Serialize(testpb.Annotated_SetStatus_FullMethodName, "go:{user_id}", core.WithFailFast()),
	)
	hold(t, store, "go:1")
	if _, err := c.SetStatus(bounded(t), online(1)); reason(t, err) != reasons.LockHeld {
		t.Error(err)
	}
	resp, err := c.SetStatus(bounded(t), online(2))
	if want := testpb.Annotated_SetStatus_FullMethodName + " go:2"; err != nil || resp.GetText() != want {
		t.Errorf("%v, %v; want %q", resp, err, want)
	}
	// The other methods keep theirs.
	if resp, err := c.ClearStatus(bounded(t), online(2)); err != nil || resp.GetText() != "user-status user:2" {
		t.Error(resp, err)
	}
}

// modes grants nothing, and remembers what it was asked for.
type modes struct {
	*memstore.Store
	asked chan []core.Claim
}

func (m modes) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	m.asked <- r.Claims
	return driver.Grant{}, &core.HeldError{Key: r.Claims[0].Key}
}

func TestModesReachTheStore(t *testing.T) {
	store := modes{memstore.New(), make(chan []core.Claim, 1)}
	for desc, want := range map[*grpc.ServiceDesc][]core.Claim{
		&testpb.AnnotatedShared_ServiceDesc: {core.Shared("user:42")},
		&testpb.AnnotatedPermit_ServiceDesc: {core.Permit("user:42", 3)},
		&testpb.AnnotatedLevels_ServiceDesc: core.Under("group:m%2F1", "member:42"),
	} {
		i := locks(t, engine(t, store), lockgrpc.FromAnnotations(desc))
		req := online(42)
		req.MessageId = "m/1"
		_, err := i.Unary()(bounded(t), req, &grpc.UnaryServerInfo{FullMethod: "/" + desc.ServiceName + "/Get"}, nil)
		if got := wait(t, store.asked, "request"); !slices.Equal(got, want) || status.Code(err) != codes.Aborted {
			t.Errorf("%s: asked for %+v, want %+v; %v", desc.ServiceName, got, want, err)
		}
	}
}

func ExampleFromAnnotations() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	_, err := lockgrpc.New(eng,
		lockgrpc.FromAnnotations(&testpb.Annotated_ServiceDesc),
		lockgrpc.Configure("user-status", core.WithMaxWait(2*time.Second)),
	)
	fmt.Println(err)
	// An error in the .proto file stops the start.
	_, err = lockgrpc.New(eng, lockgrpc.FromAnnotations(&testpb.Users_ServiceDesc))
	fmt.Println(err)
	// Output:
	// <nil>
	// lockgrpc: annotations of "keyturn.test.v1.Users": no method has an annotation; is the generated code of middleware/grpc/internal/testpb/im.proto up to date?
}
