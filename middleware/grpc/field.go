package lockgrpc

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/keyturn/keyturn/keytmpl"
)

// scalarAt finds the scalar field at the end of path, which is a part of p. It returns a
// function that returns the field's text in a message, "" if it is missing.
func scalarAt(m protoreflect.MessageDescriptor, path []keytmpl.Segment, p keytmpl.Placeholder) (func(protoreflect.Message) string, error) {
	parents, fd, err := follow(m, path)
	if err != nil {
		return nil, err
	}
	render, err := renderer(fd, p)
	if err != nil {
		return nil, err
	}
	// Without presence, false looks the same as unset, and both mean false. A number 0 is
	// different: if unset counted, all requests whose sender forgot the id would share one
	// lock.
	unsetCounts := fd.Kind() == protoreflect.BoolKind && !fd.HasPresence()
	return func(msg protoreflect.Message) string {
		msg = descend(msg, parents)
		if msg == nil || !msg.Has(fd) && !unsetCounts {
			return ""
		}
		return render(msg.Get(fd))
	}, nil
}

// listAt finds the list at the end of path, whose last step has [*]. It returns a function that
// returns the list in a message; nil if a message on the way is missing.
func listAt(m protoreflect.MessageDescriptor, path []keytmpl.Segment) (func(protoreflect.Message) protoreflect.List, protoreflect.FieldDescriptor, error) {
	parents, fd, err := follow(m, path)
	if err != nil {
		return nil, nil, err
	}
	return func(msg protoreflect.Message) protoreflect.List {
		msg = descend(msg, parents)
		if msg == nil {
			return nil
		}
		return msg.Get(fd).List()
	}, fd, nil
}

// follow looks up the steps of a path: single messages and, last, the wanted field.
func follow(m protoreflect.MessageDescriptor, path []keytmpl.Segment) (parents []protoreflect.FieldDescriptor, last protoreflect.FieldDescriptor, err error) {
	end := len(path) - 1
	for _, s := range path[:end] {
		fd, err := step(m, s)
		if err != nil {
			return nil, nil, err
		}
		if fd.Message() == nil {
			return nil, nil, noMessage(fd)
		}
		parents, m = append(parents, fd), fd.Message()
	}
	last, err = step(m, path[end])
	return parents, last, err
}

func step(m protoreflect.MessageDescriptor, s keytmpl.Segment) (protoreflect.FieldDescriptor, error) {
	fd := m.Fields().ByName(protoreflect.Name(s.Name))
	switch {
	case fd == nil:
		return nil, fmt.Errorf("%s has no field %q; it has %s", m.FullName(), s.Name, names(m.Fields()))
	case fd.IsMap():
		// Naming an entry would need a syntax, and all its keys would need an order. A key
		// function does it in one line.
		return nil, fmt.Errorf("%s is a map: use a key function", fd.FullName())
	case fd.IsList() && !s.Each:
		return nil, fmt.Errorf("%s is a list: write %s[*] for one key per element", fd.FullName(), s.Name)
	case !fd.IsList() && s.Each:
		return nil, fmt.Errorf("%s is not a list: write it without [*]", fd.FullName())
	}
	return fd, nil
}

func noMessage(fd protoreflect.FieldDescriptor) error {
	return fmt.Errorf("%s is a scalar (%v) and has no fields", fd.FullName(), fd.Kind())
}

// descend follows single messages from msg; nil if one of them is not set.
func descend(msg protoreflect.Message, parents []protoreflect.FieldDescriptor) protoreflect.Message {
	for _, fd := range parents {
		if !msg.Has(fd) {
			return nil
		}
		msg = msg.Get(fd).Message()
	}
	return msg
}

// renderer says how a scalar becomes text. Two builds of a service have to agree on it, and
// clients in other languages should be able to. So bytes are hex, whatever decoders make of
// them, and an enum is its number, which stays when its name is changed. A digest is made of
// the bytes themselves. A type that p's filters cannot handle is an error.
func renderer(fd protoreflect.FieldDescriptor, p keytmpl.Placeholder) (func(protoreflect.Value) string, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return func(v protoreflect.Value) string { return v.String() }, nil
	case protoreflect.BytesKind:
		if len(p.Filters) > 0 {
			return nil, fmt.Errorf("%s is bytes, which have only one spelling: use no filter except |hash", fd.FullName())
		}
		if p.Hash {
			return func(v protoreflect.Value) string { return string(v.Bytes()) }, nil
		}
		return func(v protoreflect.Value) string { return hexText(v.Bytes()) }, nil
	case protoreflect.BoolKind:
		if slices.Contains(p.Filters, "int") {
			return nil, fmt.Errorf("%s is a bool: use |int only for numbers", fd.FullName())
		}
		return func(v protoreflect.Value) string { return strconv.FormatBool(v.Bool()) }, nil
	case protoreflect.EnumKind:
		return func(v protoreflect.Value) string { return strconv.Itoa(int(v.Enum())) }, nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return func(v protoreflect.Value) string { return strconv.FormatInt(v.Int(), 10) }, nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return func(v protoreflect.Value) string { return strconv.FormatUint(v.Uint(), 10) }, nil
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return nil, fmt.Errorf("%s is a message: name one of its fields, %s", fd.FullName(), names(fd.Message().Fields()))
	default:
		return nil, fmt.Errorf("%s is a %v: nearly equal values would make different keys", fd.FullName(), fd.Kind())
	}
}

// hexText returns b in hex, or enough of it to be refused: a value that is longer than a key
// need not be doubled first.
func hexText[B []byte | string](b B) string {
	return hex.EncodeToString([]byte(b[:min(len(b), keytmpl.MaxKeyBytes)]))
}
