package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestNewRefuses(t *testing.T) {
	const take = testpb.Fields_Take_FullMethodName
	eng := memory(t)
	template := func(s string) []lockgrpc.Rule { return []lockgrpc.Rule{lockgrpc.Serialize(take, s)} }
	rule := func(r lockgrpc.Rule) []lockgrpc.Rule { return []lockgrpc.Rule{r} }
	key := func(*testpb.SetStatusRequest) string { return "k" }
	tests := []struct {
		name  string
		rules []lockgrpc.Rule
		want  string // in the error
	}{
		{"no slash", rule(lockgrpc.Serialize("keyturn.test.v1.Users.SetStatus", "k")), "no full method name"},
		{"no slash in front", rule(lockgrpc.Serialize(setStatus[1:], "k")), "no full method name"},
		{"no method", rule(lockgrpc.Serialize("/keyturn.test.v1.Users", "k")), "no full method name"},
		{"too many slashes", rule(lockgrpc.Serialize(setStatus+"/x", "k")), "no full method name"},
		{"unknown service", rule(lockgrpc.Serialize("/im.v9.Users/SetStatus", "k")), `no service "im.v9.Users"`},
		{"not a service", rule(lockgrpc.Serialize("/keyturn.test.v1.Group/id", "k")), `"keyturn.test.v1.Group" is not a service`},
		{"unknown method", rule(lockgrpc.Serialize("/keyturn.test.v1.Users/SetStatuses", "k")), `no method "SetStatuses"; it has SetStatus`},
		{"unknown field", template("{user}"), `keyturn.test.v1.Everything has no field "user"; it has text, data`},
		{"unknown field inside", template("{metadata.tags[*].x}"), "is a scalar (string)"},
		{"field of a scalar", template("{text.id}"), "keyturn.test.v1.Everything.text is a scalar (string) and has no fields"},
		{"message", template("{child}"), "is a message: name one of its fields, text, data"},
		{"list without [*]", template("{texts}"), "is a list: write texts[*]"},
		{"[*] without list", template("{text[*]}"), "is not a list"},
		{"map", template("{labels}"), "is a map: use a key function"},
		{"float", template("{float}"), "is a float"},
		{"case of bytes", template("{data|lower}"), "is bytes, which have only one spelling"},
		{"case of bytes in metadata", template("{metadata.x-bin|lower|hash}"), "is bytes, which have only one spelling"},
		{"number of a bool", template("{flag|int}"), "is a bool: use |int only for numbers"},
		{"metadata as a whole", template("{metadata}"), "is a message"},
		{"field or metadata", template("{metadata.tenant}"), "is a field of keyturn.test.v1.Everything as well as incoming metadata"},
		{"[*] and Once", rule(lockgrpc.Once(take, "{texts[*]}")), "Once needs exactly one"},
		{"Once for a server stream", rule(lockgrpc.Once(watch, "{group_id}")), "Once is for unary methods"},
		{"Once for a client stream", rule(lockgrpc.OnceBy(importAll, func(*testpb.ImportRequest) string { return "k" })), "Once is for unary methods"},
		{"field of a bidirectional stream", rule(lockgrpc.Serialize(chat, "{group_id}")), "a bidirectional stream has no request"},
		{"function for a bidirectional stream", rule(lockgrpc.SerializeBy(chat, func(*testpb.Event) string { return "k" })), "a bidirectional stream has no request"},
		{"function for another type", rule(lockgrpc.SerializeBy(addMembers, key)), "takes *testpb.SetStatusRequest, the method *testpb.AddMembersRequest"},
		{"function for every type", rule(lockgrpc.OnceBy(setStatus, func(proto.Message) string { return "k" })), "takes protoreflect.ProtoMessage, the method *testpb.SetStatusRequest"},
		{"nil function", rule(lockgrpc.SerializeBy[*testpb.SetStatusRequest](setStatus, nil)), "the key function is nil"},
		{"two rules", []lockgrpc.Rule{lockgrpc.Serialize(setStatus, "a"), lockgrpc.Once(setStatus, "b")}, "Once has its key alone"},
		{"one rule twice", []lockgrpc.Rule{lockgrpc.Serialize(setStatus, "a"), lockgrpc.Serialize(setStatus, "a")}, "there is already one with the key a"},
		{"stream and messages", []lockgrpc.Rule{lockgrpc.Serialize(importAll, "a"), lockgrpc.SerializeMessages(importAll, "b")}, "either rules for the whole stream"},
		{"messages of a unary method", rule(lockgrpc.SerializeMessages(setStatus, "k")), "the client sends only one message"},
		{"function for messages of another type", rule(lockgrpc.SerializeMessagesBy(chat, func(*testpb.Group) string { return "k" })), "takes *testpb.Group, the method *testpb.Event"},
		{"nil function of several keys", rule(lockgrpc.SerializeKeys[*testpb.SetStatusRequest](setStatus, nil)), "the key function is nil"},
		{"Storable without Once", rule(lockgrpc.Serialize(setStatus, "k").Storable(func(proto.Message) bool { return true })), "Storable is for rules of Once"},
	}
	for _, tt := range tests {
		i, err := lockgrpc.New(eng, tt.rules...)
		if said := fmt.Sprint(err); i != nil || !strings.Contains(said, tt.want) || !strings.HasPrefix(said, "lockgrpc: rule for") || strings.Contains(said, "\n") {
			t.Errorf("%s: got %v, %v; want one complaint about the rule, with %q", tt.name, i, err, tt.want)
		}
	}
}

func TestNewSaysEverythingAtOnce(t *testing.T) {
	_, err := lockgrpc.New(nil,
		lockgrpc.Serialize("/im.v9.Users/SetStatus", "{id", core.WithMaxWait(-1)),
		lockgrpc.SerializeBy[*testpb.Event]("/im.v9.Users/Other", nil),
		lockgrpc.Serialize("/im.v9.Users/Third", "{id}"), // of what, can't be said
		lockgrpc.Once(watch, "{id}:{text}", core.WithRetention(0)),
		lockgrpc.SerializeBy[*testpb.Event](setStatus, nil),
		lockgrpc.Rule{},
	)
	for _, want := range []string{
		`rule for "/im.v9.Users/Third": this program`, "want an engine", "no full method name", "found the end", "WithMaxWait(-1ns)", "no service", "is nil",
		"Once is for unary methods", `"id"`, `"text"`, "WithRetention(0s)", "*testpb.Event, the method",
	} {
		check(t, err != nil && strings.Contains(err.Error(), want), "error does not say %q:\n%v", want, err)
	}
	for _, err := range []error{err, func() error { _, err := lockgrpc.New(nil); return err }()} {
		check(t, errors.Is(err, core.ErrInvalidOption), "%v does not match ErrInvalidOption", err)
	}
}

// imServer serves what the name says, and nothing calls it.
func imServer(opts ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(opts...)
	testpb.RegisterUsersServer(srv, &server{})
	testpb.RegisterGroupsServer(srv, &server{})
	return srv
}

// A rule without its interceptor guards nothing, and does not say it does.
func TestCoverageWithoutTheInterceptor(t *testing.T) {
	rules := []lockgrpc.Rule{lockgrpc.Serialize(setStatus, "user:{user_id}"), lockgrpc.Serialize(watch, "group:{group_id}")}
	for guarded, i := range map[string]*lockgrpc.Interceptor{setStatus: locks(t, memory(t), rules...), watch: locks(t, memory(t), rules...)} {
		missing, says := watch, "Stream()"
		if guarded == setStatus {
			i.Unary()
		} else {
			i.Stream()
			missing, says = setStatus, "Unary()"
		}
		for _, c := range i.Coverage(imServer()) {
			check(t, (len(c.Rules) > 0) == (c.Name == guarded), "%v, want a rule for %s alone", c, guarded)
		}
		err := fmt.Sprint(i.Check(imServer()))
		check(t, strings.Contains(err, missing) && strings.Contains(err, says) && !strings.Contains(err, guarded), "error = %v, want one with %s and %s", err, missing, says)
	}
}

// A rule for a service that this server does not have is a set-up gone wrong.
func TestCheckFindsRulesThatNobodyServes(t *testing.T) {
	i := locks(t, memory(t), fromProto, lockgrpc.Serialize(setStatus, "user:{user_id}"))
	i.Unary()
	i.Stream()
	lines := strings.Split(fmt.Sprint(i.Check(imServer())), "\n")
	want := []string{"Chat", "ClearStatus", "Send", "SetStatus", "Watch"}
	if len(lines) != len(want) {
		t.Fatalf("error = %q, want one for each of %v", lines, want)
	}
	for n, method := range want {
		check(t, strings.Contains(lines[n], "/keyturn.test.v1.Annotated/"+method+`"`) && strings.Contains(lines[n], "does not serve"), "error %q, want one about %s", lines[n], method)
	}
}

// At start: what guards which method, and no rule in vain. In a test:
//
//	if left := coverage.Uncovered(locks.Coverage(server), "/im.v1.Users/Get"); len(left) > 0 {
//		t.Errorf("without a rule: %v", left)
//	}
func ExampleInterceptor_Coverage() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, err := lockgrpc.New(eng, lockgrpc.FromAnnotations(&testpb.Annotated_ServiceDesc))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.Unary()),
		grpc.ChainStreamInterceptor(locks.Stream()),
	)
	testpb.RegisterAnnotatedServer(server, testpb.UnimplementedAnnotatedServer{})

	if err := locks.Check(server); err != nil {
		fmt.Println(err) // a rule that does nothing
	}
	for _, c := range locks.Coverage(server) { // coverage.Log(ctx, logger, ...) in a real one
		fmt.Println(c)
	}
	fmt.Println("without a rule:", coverage.Uncovered(locks.Coverage(server)))
	// Output:
	// /keyturn.test.v1.Annotated/Chat: serialize group:{group_id}
	// /keyturn.test.v1.Annotated/ClearStatus: serialize user:{user_id}
	// /keyturn.test.v1.Annotated/Get: none
	// /keyturn.test.v1.Annotated/Send: once once:{metadata.x-user}:{message_id}
	// /keyturn.test.v1.Annotated/SetStatus: serialize user:{user_id}
	// /keyturn.test.v1.Annotated/Watch: serialize group:{group_id}
	// without a rule: [/keyturn.test.v1.Annotated/Get]
}
