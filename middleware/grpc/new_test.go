package lockgrpc_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

func TestNewRefuses(t *testing.T) {
	const take = testpb.Fields_Take_FullMethodName
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
		t.Run(tt.name, func(t *testing.T) {
			i, err := lockgrpc.New(memory(t), tt.rules...)
			if i != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "lockgrpc: rule for") {
				t.Fatalf("got %v, %v; want an error of the rule with %q", i, err, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one complaint: %v", err)
			}
		})
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
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
	for _, err := range []error{err, func() error { _, err := lockgrpc.New(nil); return err }()} {
		if !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%v does not match ErrInvalidOption", err)
		}
	}
}
