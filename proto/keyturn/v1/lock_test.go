package keyturnv1_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/keyturn/keyturn/internal/testpb"
	keyturnv1 "github.com/keyturn/keyturn/proto/keyturn/v1"
)

// What a .proto file says is in the descriptors of its generated code.
func TestOptionsAreInTheDescriptors(t *testing.T) {
	methods := testpb.File_internal_testpb_annotated_proto.Services().ByName("Annotated").Methods()
	option := func(method protoreflect.Name, of protoreflect.ExtensionType) proto.Message {
		return proto.GetExtension(methods.ByName(method).Options(), of).(proto.Message)
	}
	for _, tt := range []struct {
		got, want proto.Message
	}{
		{option("SetStatus", keyturnv1.E_Lock), &keyturnv1.Lock{Key: "user:{user_id}", Mode: keyturnv1.Mode_MODE_EXCLUSIVE, Name: "user-status"}},
		{option("Send", keyturnv1.E_Once), &keyturnv1.Once{Key: "once:{metadata.x-user}:{message_id}"}},
		{option("Get", keyturnv1.E_Lock), (*keyturnv1.Lock)(nil)},
	} {
		if !proto.Equal(tt.got, tt.want) {
			t.Errorf("got %v, want %v", tt.got, tt.want)
		}
	}
}

// The numbers are in the binaries of everybody who uses the options: they can't
// change.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		option protoreflect.ExtensionType
		name   protoreflect.FullName
		number protoreflect.FieldNumber
	}{
		{keyturnv1.E_Lock, "keyturn.v1.lock", 73917},
		{keyturnv1.E_Once, "keyturn.v1.once", 73918},
	} {
		if d := tt.option.TypeDescriptor(); d.FullName() != tt.name || d.Number() != tt.number {
			t.Errorf("%s = %d, want %s = %d", d.FullName(), d.Number(), tt.name, tt.number)
		}
	}
}
