package lockgrpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

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
		{"no template", template(""), "found nothing"},
		{"broken template", template("user:{id"), "found the end"},
		{"unknown field", template("{user}"), `keyturn.test.v1.Everything has no field "user"; it has text, data`},
		{"unknown field inside", template("{metadata.tags[*].x}"), "is a scalar (string)"},
		{"field of a scalar", template("{text.id}"), "keyturn.test.v1.Everything.text is a scalar (string) and has no fields"},
		{"message", template("{child}"), "is a message: name one of its fields, text, data"},
		{"list of messages", template("{children[*]}"), "is a message"},
		{"list without [*]", template("{texts}"), "is a list: write texts[*]"},
		{"list of messages without [*]", template("{children.text}"), "is a list: write children[*]"},
		{"[*] without list", template("{text[*]}"), "is not a list"},
		{"[*] without list inside", template("{child[*].text}"), "is not a list"},
		{"map", template("{labels}"), "is a map: use a key function"},
		{"map as a list", template("{labels[*].key}"), "is a map: use a key function"},
		{"float", template("{float}"), "is a float"},
		{"case of bytes", template("{data|lower}"), "is bytes, which have only one spelling"},
		{"case of bytes in metadata", template("{metadata.x-bin|lower|hash}"), "is bytes, which have only one spelling"},
		{"number of a bool", template("{flag|int}"), "is a bool: use |int only for numbers"},
		{"double", template("{double}"), "is a double"},
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
		{"two policies", []lockgrpc.Rule{lockgrpc.Serialize(setStatus, "a"), lockgrpc.Serialize(setStatus, "b", core.WithFailFast())}, "to the first of them only"},
		{"stream and messages", []lockgrpc.Rule{lockgrpc.Serialize(importAll, "a"), lockgrpc.SerializeMessages(importAll, "b")}, "either rules for the whole stream"},
		{"messages of a unary method", rule(lockgrpc.SerializeMessages(setStatus, "k")), "the client sends only one message"},
		{"messages of a server stream", rule(lockgrpc.SerializeMessages(watch, "{group_id}")), "the client sends only one message"},
		{"field of messages", rule(lockgrpc.SerializeMessages(chat, "{id}")), `no field "id"`},
		{"function for messages of another type", rule(lockgrpc.SerializeMessagesBy(chat, func(*testpb.Group) string { return "k" })), "takes *testpb.Group, the method *testpb.Event"},
		{"nil function of several keys", rule(lockgrpc.SerializeKeys[*testpb.SetStatusRequest](setStatus, nil)), "the key function is nil"},
		{"Storable without Once", rule(lockgrpc.Serialize(setStatus, "k").Storable(func(proto.Message) bool { return true })), "Storable is for rules of Once"},
		{"option out of range", rule(lockgrpc.Serialize(setStatus, "k", core.WithTTL(time.Millisecond))), "WithTTL(1ms)"},
		{"nil option", rule(lockgrpc.Serialize(setStatus, "k", nil)), "want not nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, err := lockgrpc.New(memory(t), tt.rules...)
			if i != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v; want an error with %q", i, err, tt.want)
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
	if !errors.Is(err, core.ErrInvalidOption) {
		t.Error("does not match ErrInvalidOption")
	}
	if _, err := lockgrpc.New(nil); !errors.Is(err, core.ErrInvalidOption) {
		t.Errorf("a nil engine: %v", err)
	}
}

// A service that is registered at run time, as a proxy does it, has dynamic
// messages.
func TestServiceWithoutGeneratedCode(t *testing.T) {
	file := dynamicFile(t)
	request := dynamicpb.NewMessage(file.Messages().Get(0))
	request.Set(file.Messages().Get(0).Fields().Get(0), protoreflect.ValueOfString("7"))
	info := &grpc.UnaryServerInfo{FullMethod: "/dynamic.Service/Call"}
	i := locks(t, memory(t), lockgrpc.Once(info.FullMethod, "call:{id}"))
	for range 2 {
		got, err := i.Unary()(bounded(t), request, info, func(ctx context.Context, _ any) (any, error) {
			if lease, _ := core.LeaseFrom(ctx); lease.Key() != "call:7" {
				t.Errorf("key %q", lease.Key())
			}
			return request, nil
		})
		if err != nil || !proto.Equal(got.(proto.Message), request) {
			t.Error(got, err)
		}
	}
	_, err := lockgrpc.New(memory(t), lockgrpc.Serialize("/dynamic.Nothing/Call", "k"))
	if err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("a service without methods: %v", err)
	}
}

// dynamicFile registers a file that no code was generated for, once: the
// registry is the process's, also with -count.
func dynamicFile(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	if file, err := protoregistry.GlobalFiles.FindFileByPath("dynamic.proto"); err == nil {
		return file
	}
	str, opt := descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("dynamic.proto"), Package: proto.String("dynamic"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Request"), Field: []*descriptorpb.FieldDescriptorProto{
				{Name: proto.String("id"), JsonName: proto.String("id"), Number: proto.Int32(1), Type: str, Label: opt},
			}},
			{Name: proto.String("Empty")},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{
			{Name: proto.String("Service"), Method: []*descriptorpb.MethodDescriptorProto{
				{Name: proto.String("Call"), InputType: proto.String(".dynamic.Request"), OutputType: proto.String(".dynamic.Request")},
			}},
			{Name: proto.String("Nothing")},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
	return file
}
