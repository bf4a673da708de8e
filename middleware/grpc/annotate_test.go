package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	keyturnv1 "github.com/keyturn/keyturn/proto/keyturn/v1"
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
	conn := start(t, locks(t, eng, rules...), func(srv *grpc.Server) { testpb.RegisterAnnotatedServer(srv, a) })
	return testpb.NewAnnotatedClient(conn)
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
	stream, err := c.Watch(ctx, &testpb.WatchRequest{GroupId: "7"})
	if err != nil {
		t.Fatal(err)
	}
	if got := wait(t, a.ttl, "TTL"); got != time.Minute {
		t.Errorf("not configured, and its TTL is %v", got)
	}
	if _, err := stream.Recv(); err != nil {
		t.Error(err)
	}
}

// A rule in Go takes the annotation's place: its key, its policy, its kind.
func TestGoOverridesAnnotations(t *testing.T) {
	store := memstore.New()
	c := serveAnnotated(t, &annotated{}, engine(t, store, core.WithHooks(seeLeases)),
		fromProto,
		lockgrpc.Serialize(testpb.Annotated_SetStatus_FullMethodName, "go:{user_id}", core.WithFailFast()),
	)
	holder, err := engine(t, store).Acquire(bounded(t), "go:1")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release(context.Background())
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

// Each mistake is found, all of them at once, with the method and the option it
// is in; and nothing is made.
func TestWrongAnnotations(t *testing.T) {
	i, err := lockgrpc.New(engine(t, several{memstore.New()}), lockgrpc.FromAnnotations(&testpb.AnnotatedWrong_ServiceDesc))
	if i != nil || err == nil {
		t.Fatalf("got %v, %v", i, err)
	}
	lines := strings.Split(err.Error(), "\n")
	for method, want := range map[string]string{
		"NoKey":         "found nothing",
		"Missing":       `has no field "nobody"`,
		"Map":           "is a map",
		"Message":       "is a message: name one of its fields",
		"List":          "is a list: write texts[*]",
		"OnceForEach":   "Once needs exactly one",
		"OnceForStream": "Once is for unary methods",
		"Both":          "has (keyturn.v1.once) as well",
		"EachOfOne":     "the client sends only one message",
		"Permits":       "permits: 2 is only for MODE_PERMIT",
		"NoPermits":     "permits: 0, want 1",
	} {
		found := 0
		for _, line := range lines {
			if strings.Contains(line, want) && strings.HasPrefix(line, "(keyturn.v1.") &&
				strings.Contains(line, `rule for "/keyturn.test.v1.AnnotatedWrong/`+method+`"`) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %q stands %d times in\n%v", method, want, found, err)
		}
	}
	if len(lines) != 11 {
		t.Errorf("%d complaints:\n%v", len(lines), err)
	}
}

// exclusiveOnly is a store that does one exclusive claim at a time.
type exclusiveOnly struct{ *memstore.Store }

func (exclusiveOnly) Describe() driver.Description { return driver.Description{} }

func TestAnnotationsThatTheStoreCannotDo(t *testing.T) {
	able, unable := engine(t, everything{memstore.New()}), engine(t, exclusiveOnly{memstore.New()})
	for _, desc := range []*grpc.ServiceDesc{
		&testpb.AnnotatedSets_ServiceDesc, &testpb.AnnotatedShared_ServiceDesc, &testpb.AnnotatedPermit_ServiceDesc,
		&testpb.AnnotatedLevels_ServiceDesc,
	} {
		if _, err := lockgrpc.New(able, lockgrpc.FromAnnotations(desc)); err != nil {
			t.Errorf("%s: %v", desc.ServiceName, err)
		}
		if _, err := lockgrpc.New(unable, lockgrpc.FromAnnotations(desc)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want it unsupported", desc.ServiceName, err)
		}
	}
}

// everything is a store that says it can do everything.
type everything struct{ *memstore.Store }

func (everything) Describe() driver.Description {
	return driver.Description{Shared: true, Permits: true, Sets: true, Ledger: true}
}

// modes grants nothing, and remembers what it was asked for.
type modes struct {
	everything
	asked chan []core.Claim
}

func (m modes) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	m.asked <- r.Claims
	return driver.Grant{}, &core.HeldError{Key: r.Claims[0].Key}
}

func TestModesReachTheStore(t *testing.T) {
	store := modes{everything{memstore.New()}, make(chan []core.Claim, 1)}
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

func TestFromAnnotationsRefuses(t *testing.T) {
	clear := testpb.Annotated_ClearStatus_FullMethodName
	for name, tt := range map[string]struct {
		rules []lockgrpc.Rule
		want  string
	}{
		"no service":          {[]lockgrpc.Rule{lockgrpc.FromAnnotations()}, "at least one service"},
		"nil":                 {[]lockgrpc.Rule{lockgrpc.FromAnnotations(nil)}, "descriptor is nil"},
		"unknown service":     {[]lockgrpc.Rule{lockgrpc.FromAnnotations(&grpc.ServiceDesc{ServiceName: "im.v9.Users"})}, `no service "im.v9.Users"`},
		"no service's name":   {[]lockgrpc.Rule{lockgrpc.FromAnnotations(&grpc.ServiceDesc{ServiceName: "keyturn.test.v1.Group"})}, "is not a service"},
		"without annotations": {[]lockgrpc.Rule{lockgrpc.FromAnnotations(&testpb.Users_ServiceDesc)}, "no method has an annotation; is the generated code of internal/testpb/im.proto up to date?"},
		"twice":               {[]lockgrpc.Rule{fromProto, fromProto}, "already has one"},
		"nobody's policy":     {[]lockgrpc.Rule{fromProto, lockgrpc.Configure("user-state")}, `configuration of "user-state": no annotated rule in use has this name; there are ["/keyturn.test.v1.Annotated/Chat"`},
		"policy of a Go rule": {[]lockgrpc.Rule{fromProto, lockgrpc.Serialize(clear, "k"), lockgrpc.Configure(clear)}, "no annotated rule in use"},
		"two policies":        {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(clear), lockgrpc.Configure(clear)}, "configuration of \"" + clear + "\": the rule already has one"},
		"a wrong policy":      {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(clear, core.WithTTL(-1))}, "WithTTL(-1ns)"},
		"from the future":     {[]lockgrpc.Rule{lockgrpc.FromAnnotations(future(t))}, "unknown to this version of keyturn"},
	} {
		t.Run(name, func(t *testing.T) {
			i, err := lockgrpc.New(memory(t), tt.rules...)
			if i != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want %q", i, err, tt.want)
			}
		})
	}
	_, err := lockgrpc.New(memory(t), lockgrpc.FromAnnotations(future(t)))
	for _, want := range []string{
		`rule for "/future.Service/Field": has fields`, `rule for "/future.Service/OnceField": has fields`,
		`rule for "/future.Service/Mode": mode: 99 is unknown`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// future is a service annotated with a later version of lock.proto.
func future(t *testing.T) *grpc.ServiceDesc {
	t.Helper()
	desc := &grpc.ServiceDesc{ServiceName: "future.Service"}
	if _, err := protoregistry.GlobalFiles.FindFileByPath("future.proto"); err == nil {
		return desc
	}
	method := func(name string, set func(*descriptorpb.MethodOptions)) *descriptorpb.MethodDescriptorProto {
		options := &descriptorpb.MethodOptions{}
		set(options)
		return &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".keyturn.test.v1.WatchRequest"),
			OutputType: proto.String(".keyturn.test.v1.Event"), Options: options,
		}
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("future.proto"), Package: proto.String("future"), Syntax: proto.String("proto3"),
		Dependency: []string{"internal/testpb/im.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Service"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Field", func(o *descriptorpb.MethodOptions) {
				lock := &keyturnv1.Lock{Key: "k"}
				lock.ProtoReflect().SetUnknown(unknown)
				proto.SetExtension(o, keyturnv1.E_Lock, lock)
			}),
			method("OnceField", func(o *descriptorpb.MethodOptions) {
				once := &keyturnv1.Once{Key: "k"}
				once.ProtoReflect().SetUnknown(unknown)
				proto.SetExtension(o, keyturnv1.E_Once, once)
			}),
			method("Mode", func(o *descriptorpb.MethodOptions) {
				proto.SetExtension(o, keyturnv1.E_Lock, &keyturnv1.Lock{Key: "k", Mode: 99})
			}),
			// As a parser leaves it that does not know the option.
			method("Unparsed", func(o *descriptorpb.MethodOptions) {
				raw := protowire.AppendTag(nil, 73917, protowire.BytesType)
				o.ProtoReflect().SetUnknown(protowire.AppendBytes(raw, []byte("\n\x04{no}")))
			}),
		}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
	return desc
}

// An option that the descriptor's maker did not know is an option all the same.
func TestAnnotationAmongUnknownFields(t *testing.T) {
	_, err := lockgrpc.New(memory(t), lockgrpc.FromAnnotations(future(t)))
	if want := `rule for "/future.Service/Unparsed": template "{no}"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
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
	// What is wrong in the .proto file stops the start.
	_, err = lockgrpc.New(eng, lockgrpc.FromAnnotations(&testpb.Users_ServiceDesc))
	fmt.Println(err)
	// Output:
	// <nil>
	// annotations of "keyturn.test.v1.Users": no method has an annotation; is the generated code of internal/testpb/im.proto up to date?
}
