package lockgrpc_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	keyturnv1 "github.com/keyturn/keyturn/proto/keyturn/v1"
)

// A service that is registered at run time, as a proxy does it, has dynamic messages.
func TestServiceWithoutGeneratedCode(t *testing.T) {
	fields := registered(t).Messages().Get(0)
	request := dynamicpb.NewMessage(fields)
	request.Set(fields.Fields().Get(0), protoreflect.ValueOfString("7"))
	info := &grpc.UnaryServerInfo{FullMethod: "/future.Service/Call"}
	i := locks(t, memory(t), lockgrpc.Once(info.FullMethod, "call:{id}"))
	for range 2 {
		got, err := i.Unary()(bounded(t), request, info, func(ctx context.Context, _ any) (any, error) {
			held := claimsOf(ctx)
			check(t, held == "exclusive call:7", "held %q", held)
			return request, nil
		})
		if err != nil || !proto.Equal(got.(proto.Message), request) {
			t.Error(got, err)
		}
	}
	if _, err := lockgrpc.New(memory(t), lockgrpc.Serialize("/future.Nothing/Call", "k")); err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("a service without methods: %v", err)
	}
}

// What a later version brings is not overlooked; and an option that the descriptor's maker did not know is an
// option all the same.
func TestAnnotationsOfALaterVersion(t *testing.T) {
	registered(t)
	_, err := lockgrpc.New(memory(t), lockgrpc.FromAnnotations(&grpc.ServiceDesc{ServiceName: "future.Service"}))
	for _, want := range []string{
		`rule for "/future.Service/Field": has fields`, `rule for "/future.Service/OnceField": has fields`,
		`rule for "/future.Service/Mode": mode: 99 is unknown`, "unknown to this version of keyturn",
		`rule for "/future.Service/Unparsed": template "{no}"`,
	} {
		check(t, err != nil && strings.Contains(err.Error(), want), "%v; want %q", err, want)
	}
}

// registered registers a file that no code was generated for, with annotations of a later version of lock.proto:
// once, because the registry is the process's, also with -count.
func registered(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	if file, err := protoregistry.GlobalFiles.FindFileByPath("future.proto"); err == nil {
		return file
	}
	method := func(name string, set func(*descriptorpb.MethodOptions)) *descriptorpb.MethodDescriptorProto {
		options := &descriptorpb.MethodOptions{}
		set(options)
		return &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".future.Request"), OutputType: proto.String(".future.Request"), Options: options,
		}
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("future.proto"), Package: proto.String("future"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Request"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("id"), JsonName: proto.String("id"), Number: proto.Int32(1),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Nothing")}, {Name: proto.String("Service"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Call", func(*descriptorpb.MethodOptions) {}),
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
	must(t, err)
	must(t, protoregistry.GlobalFiles.RegisterFile(file))
	return file
}
