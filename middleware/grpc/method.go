package lockgrpc

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// request is what keys are made from.
type request struct {
	ctx     context.Context
	message protoreflect.Message // nil if the rule does not read it
}

// given returns the message for a function of the user's.
func (r request) given() proto.Message {
	if r.message == nil {
		return nil
	}
	return r.message.Interface()
}

// method is a gRPC method with its descriptor.
type method struct {
	protoreflect.MethodDescriptor
	input, output protoreflect.MessageType
}

func findMethod(fullName string) (*method, error) {
	service, name, ok := strings.Cut(strings.TrimPrefix(fullName, "/"), "/")
	if !ok || !strings.HasPrefix(fullName, "/") || strings.Contains(name, "/") {
		return nil, fmt.Errorf("no full method name: want the form %q", "/im.v1.Users/SetStatus")
	}
	sd, err := findService(service)
	if err != nil {
		return nil, err
	}
	md := sd.Methods().ByName(protoreflect.Name(name))
	if md == nil {
		return nil, fmt.Errorf("service %s has no method %q; it has %s", service, name, names(sd.Methods()))
	}
	return &method{md, messageType(md.Input()), messageType(md.Output())}, nil
}

func findService(name string) (protoreflect.ServiceDescriptor, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("this program knows no service %q: is its generated package imported?", name)
	}
	sd, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%q is not a service", name)
	}
	return sd, nil
}

// messageType returns the Go type of a message. A descriptor without generated code, such as
// one that a proxy registers, has the dynamic type.
func messageType(d protoreflect.MessageDescriptor) protoreflect.MessageType {
	if t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName()); err == nil {
		return t
	}
	return dynamicpb.NewMessageType(d)
}

// streams reports whether the method streams in either direction.
func (m *method) streams() bool { return m.IsStreamingClient() || m.IsStreamingServer() }

// bidirectional reports whether the method streams in both directions.
func (m *method) bidirectional() bool { return m.IsStreamingClient() && m.IsStreamingServer() }

// message returns v for reading with the descriptors of this method. Reading a field of one
// descriptor from a message of another would panic.
func (m *method) message(v any) (protoreflect.Message, error) {
	p, ok := v.(proto.Message)
	if !ok || p.ProtoReflect().Descriptor() != m.Input() {
		return nil, fmt.Errorf("lockgrpc: the request is a %T, want a message of type %s", v, m.Input().FullName())
	}
	return p.ProtoReflect(), nil
}

// names lists the possible names, for the error about a mistyped one.
func names[D protoreflect.Descriptor](list interface {
	Len() int
	Get(int) D
},
) string {
	all := make([]string, list.Len())
	for i := range all {
		all[i] = string(list.Get(i).Name())
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// goType is the request's type for a key function.
func (m *method) goType() reflect.Type { return reflect.TypeOf(m.input.Zero().Interface()) }
