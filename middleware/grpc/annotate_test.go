package lockgrpc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
	"github.com/keyturn/keyturn/store/memstore"
)

// fromProto are the annotations of a service.
var fromProto = lockgrpc.FromAnnotations(&testpb.Annotated_ServiceDesc)

const (
	annotatedSet   = testpb.Annotated_SetStatus_FullMethodName
	annotatedClear = testpb.Annotated_ClearStatus_FullMethodName
	annotatedSend  = testpb.Annotated_Send_FullMethodName
	annotatedWatch = testpb.Annotated_Watch_FullMethodName
	annotatedChat  = testpb.Annotated_Chat_FullMethodName
)

// call has i run a unary method without a server. handler gets the lease that it runs under, or nil.
func call(t *testing.T, i *lockgrpc.Interceptor, method string, handler func(context.Context, *core.Lease)) error {
	t.Helper()
	ctx := metadata.NewIncomingContext(bounded(t), metadata.Pairs("x-user", "alice"))
	request := &testpb.SetStatusRequest{UserId: 42, MessageId: "8/2c"}
	_, err := i.Unary()(ctx, request, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
		lease, _ := core.LeaseFrom(ctx)
		handler(ctx, lease)
		return &testpb.SetStatusResponse{}, nil
	})
	return err
}

// Each method has the rule of its option, in its mode. Configure finds a rule by its name, and the method's own
// configuration goes before that of its name, wherever they stand.
func TestAnnotatedMethodsHaveTheirRules(t *testing.T) {
	i := locks(t, memory(t, core.WithHooks(ruletest.SeeLeases), core.WithTTL(time.Minute)),
		lockgrpc.Configure(annotatedClear, core.WithTTL(7*time.Second)),
		fromProto,
		lockgrpc.FromAnnotations(&testpb.AnnotatedShared_ServiceDesc, &testpb.AnnotatedPermit_ServiceDesc, &testpb.AnnotatedLevels_ServiceDesc),
		lockgrpc.Configure("user-status", core.WithTTL(5*time.Second), core.WithFailFast()),
		lockgrpc.Configure(annotatedSend, core.WithTTL(9*time.Second)),
	)
	get := func(service grpc.ServiceDesc) string { return "/" + service.ServiceName + "/Get" }
	shared, permit, levels := get(testpb.AnnotatedShared_ServiceDesc), get(testpb.AnnotatedPermit_ServiceDesc), get(testpb.AnnotatedLevels_ServiceDesc)
	for method, want := range map[string]struct {
		rule   string
		claims []core.Claim
		ttl    time.Duration
	}{
		annotatedSet:                      {"user-status", []core.Claim{core.Exclusive("user:42")}, 5 * time.Second},
		annotatedClear:                    {"user-status", []core.Claim{core.Exclusive("user:42")}, 7 * time.Second},
		annotatedSend:                     {annotatedSend, []core.Claim{core.Exclusive("once:alice:8%2F2c")}, 9 * time.Second},
		shared:                            {shared, []core.Claim{core.Shared("user:42")}, time.Minute},
		permit:                            {permit, []core.Claim{core.Permit("user:42", 3)}, time.Minute},
		levels:                            {levels, core.Under("group:8%2F2c", "member:42"), time.Minute},
		get(testpb.Annotated_ServiceDesc): {}, // has no annotation
	} {
		err := call(t, i, method, func(ctx context.Context, lease *core.Lease) {
			if lease == nil && want.claims == nil {
				return
			}
			got := ruletest.Seen(ctx).Rule()
			check(t, got == want.rule && slices.Equal(lease.Claims(), want.claims) && lease.TTL() == want.ttl, "%s: rule %s, claims %v, TTL %v; want %v", method, got, lease.Claims(), lease.TTL(), want)
		})
		check(t, err == nil, "%s: %v", method, err)
	}
	wantNil(t, call(t, i, annotatedSend, func(context.Context, *core.Lease) { t.Error("once ran twice") }))
}

// A stream takes one turn, or one for each of its messages.
func TestAnnotatedStreams(t *testing.T) {
	i := locks(t, memory(t), fromProto)
	for method, tt := range map[string]struct {
		into proto.Message
		want []string
	}{
		annotatedWatch: {&testpb.WatchRequest{}, []string{"exclusive group:1", "exclusive group:1"}},
		annotatedChat:  {&testpb.Event{}, []string{"exclusive group:1", "exclusive group:2"}},
	} {
		n := 0
		err := streamed(bounded(t), i, method, func(m any) error {
			n++
			message := m.(proto.Message).ProtoReflect()
			message.Set(message.Descriptor().Fields().ByName("group_id"), protoreflect.ValueOfString(fmt.Sprint(n)))
			return nil
		}, func(s grpc.ServerStream) error {
			for _, want := range tt.want {
				if err := s.RecvMsg(tt.into); err != nil || claimsOf(s.Context()) != want {
					t.Errorf("%s: held %q, %v; want %q", method, claimsOf(s.Context()), err, want)
				}
			}
			return nil
		})
		wantNil(t, err)
	}
}

// A rule in Go takes the annotation's place: its key, its policy, its kind. The other methods keep theirs.
func TestGoOverridesAnnotations(t *testing.T) {
	store := memstore.New()
	i := locks(t, engine(t, store), fromProto, lockgrpc.Serialize(annotatedSet, "go:{user_id}", core.WithFailFast()))
	hold(t, store, "go:42")
	if err := call(t, i, annotatedSet, nil); reason(t, err) != reasons.LockHeld {
		t.Error(err)
	}
	wantNil(t, call(t, i, annotatedClear, func(ctx context.Context, _ *core.Lease) {
		held := claimsOf(ctx)
		check(t, held == "exclusive user:42", "held %q", held)
	}))
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

// Each mistake is found, all of them at once, with the method and the option it is in; and nothing is made.
func TestWrongAnnotations(t *testing.T) {
	i, err := lockgrpc.New(memory(t), lockgrpc.FromAnnotations(&testpb.AnnotatedWrong_ServiceDesc))
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
			if strings.Contains(line, want) && strings.HasPrefix(strings.TrimPrefix(line, "lockgrpc: "), "(keyturn.v1.") &&
				strings.Contains(line, `rule for "/keyturn.test.v1.AnnotatedWrong/`+method+`"`) {
				found++
			}
		}
		check(t, found == 1, "%s: %q stands %d times in\n%v", method, want, found, err)
	}
	check(t, len(lines) == 11, "%d complaints:\n%v", len(lines), err)
}

func TestFromAnnotationsRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		rules []lockgrpc.Rule
		want  string
	}{
		"no service":          {[]lockgrpc.Rule{lockgrpc.FromAnnotations()}, "at least one service"},
		"nil":                 {[]lockgrpc.Rule{lockgrpc.FromAnnotations(nil)}, "descriptor is nil"},
		"unknown service":     {[]lockgrpc.Rule{lockgrpc.FromAnnotations(&grpc.ServiceDesc{ServiceName: "im.v9.Users"})}, `no service "im.v9.Users"`},
		"twice":               {[]lockgrpc.Rule{fromProto, fromProto}, "there is already one"},
		"nobody's policy":     {[]lockgrpc.Rule{fromProto, lockgrpc.Configure("user-state")}, `configuration of "user-state": no annotated rule in use has this name; there are ["/keyturn.test.v1.Annotated/Chat"`},
		"policy of a Go rule": {[]lockgrpc.Rule{fromProto, lockgrpc.Serialize(annotatedClear, "k"), lockgrpc.Configure(annotatedClear)}, "no annotated rule in use"},
		"two policies":        {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(annotatedClear), lockgrpc.Configure(annotatedClear)}, "configuration of \"" + annotatedClear + "\": the rule already has one"},
		"a wrong policy":      {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(annotatedClear, core.WithTTL(-1))}, "WithTTL(-1ns)"},
	} {
		i, err := lockgrpc.New(memory(t), tt.rules...)
		check(t, i == nil && err != nil && strings.Contains(err.Error(), tt.want), "%s: got %v, %v; want %q", name, i, err, tt.want)
	}
}
