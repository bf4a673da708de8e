package keyturnv1_test

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	keyturnv1 "github.com/keyturn/keyturn/proto/keyturn/v1"
)

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
