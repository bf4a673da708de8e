package lockgrpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	keyturnv1 "github.com/keyturn/keyturn/proto/keyturn/v1"
)

// Each mistake is found, all of them at once, with the method and the option it
// is in; and nothing is made.
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
		if found != 1 {
			t.Errorf("%s: %q stands %d times in\n%v", method, want, found, err)
		}
	}
	if len(lines) != 11 {
		t.Errorf("%d complaints:\n%v", len(lines), err)
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
		"without annotations": {[]lockgrpc.Rule{lockgrpc.FromAnnotations(&testpb.Users_ServiceDesc)}, "no method has an annotation; is the generated code of middleware/grpc/internal/testpb/im.proto up to date?"},
		"twice":               {[]lockgrpc.Rule{fromProto, fromProto}, "there is already one"},
		"nobody's policy":     {[]lockgrpc.Rule{fromProto, lockgrpc.Configure("user-state")}, `configuration of "user-state": no annotated rule in use has this name; there are ["/keyturn.test.v1.Annotated/Chat"`},
		"policy of a Go rule": {[]lockgrpc.Rule{fromProto, lockgrpc.Serialize(clear, "k"), lockgrpc.Configure(clear)}, "no annotated rule in use"},
		"two policies":        {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(clear), lockgrpc.Configure(clear)}, "configuration of \"" + clear + "\": the rule already has one"},
		"a wrong policy":      {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(clear, core.WithTTL(-1))}, "WithTTL(-1ns)"},
	} {
		t.Run(name, func(t *testing.T) {
			i, err := lockgrpc.New(memory(t), tt.rules...)
			if i != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want %q", i, err, tt.want)
			}
		})
	}
}

// What a later version brings is not overlooked; and an option that the descriptor's maker did not know is an
// option all the same.
func TestAnnotationsOfALaterVersion(t *testing.T) {
	_, err := lockgrpc.New(memory(t), lockgrpc.FromAnnotations(future(t)))
	for _, want := range []string{
		`rule for "/future.Service/Field": has fields`, `rule for "/future.Service/OnceField": has fields`,
		`rule for "/future.Service/Mode": mode: 99 is unknown`, "unknown to this version of keyturn",
		`rule for "/future.Service/Unparsed": template "{no}"`,
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
		Dependency: []string{"middleware/grpc/internal/testpb/im.proto"},
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
