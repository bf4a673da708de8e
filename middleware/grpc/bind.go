package lockgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// binder binds the placeholders of one rule's template. It looks up all names when the server
// starts; a request only follows what was found.
type binder struct {
	method    *method // nil: unknown, and so are the fields of its requests
	messages  bool    // requests are the single messages of a stream
	usesField bool    // a placeholder named a field of the request
}

func (b *binder) bind(p keytmpl.Placeholder) (rule.Source[request], error) {
	if b.method == nil {
		return rule.Source[request]{}, nil
	}
	if !isMetadata(p) {
		b.usesField = true
		return b.field(p)
	}
	// A request may have a field with that name. If one meaning were chosen, some readers would
	// be wrong about what is locked.
	if _, err := b.field(p); err == nil {
		return rule.Source[request]{}, fmt.Errorf(
			"is a field of %s as well as incoming metadata: say which with a key function", b.method.Input().FullName())
	}
	return fromMetadata(p)
}

const metadataSource = "metadata"

func isMetadata(p keytmpl.Placeholder) bool {
	return p.Path[0].Name == metadataSource && len(p.Path) > 1 && !p.Multiple()
}

// fromMetadata reads the only value of a name.
func fromMetadata(p keytmpl.Placeholder) (rule.Source[request], error) {
	name := strings.ToLower(rule.Name(p))
	binary := strings.HasSuffix(name, "-bin") // bytes, as in renderer
	if binary && len(p.Filters) > 0 {
		return rule.Source[request]{}, errors.New("is bytes, which have only one spelling: use no filter except |hash")
	}
	inHex := binary && !p.Hash
	return rule.Source[request]{One: func(r request) (string, error) {
		value, err := onlyValue(r.ctx, name)
		if inHex {
			value = hexText(value)
		}
		return value, err
	}}, nil
}

// onlyValue refuses to choose among several values: a proxy and the service behind it may
// choose differently, and then hold different locks.
func onlyValue(ctx context.Context, name string) (string, error) {
	switch values := metadata.ValueFromIncomingContext(ctx, name); len(values) {
	case 0:
		return "", keytmpl.ErrMissingValue
	case 1:
		return values[0], nil
	default:
		return "", keytmpl.ErrManyValues
	}
}

func (b *binder) field(p keytmpl.Placeholder) (rule.Source[request], error) {
	if b.method.bidirectional() && !b.messages {
		return rule.Source[request]{}, errors.New(
			"names a field, and a bidirectional stream has no request to take it from: use {metadata.name}, or SerializeMessages")
	}
	each := slices.IndexFunc(p.Path, func(s keytmpl.Segment) bool { return s.Each })
	if each >= 0 {
		return b.list(p, each)
	}
	text, err := scalarAt(b.method.Input(), p.Path, p)
	if err != nil {
		return rule.Source[request]{}, err
	}
	return rule.Source[request]{One: func(r request) (string, error) { return text(r.message), nil }}, nil
}

// list binds a path whose step at index each is marked with [*].
func (b *binder) list(p keytmpl.Placeholder, each int) (rule.Source[request], error) {
	list, fd, err := listAt(b.method.Input(), p.Path[:each+1])
	if err != nil {
		return rule.Source[request]{}, err
	}
	text, err := elementText(fd, p.Path[each+1:], p)
	if err != nil {
		return rule.Source[request]{}, err
	}
	return rule.Source[request]{Each: func(r request) ([]string, error) {
		elements := list(r.message)
		if elements == nil {
			return nil, nil
		}
		// Checked before the values are made: a request of four megabytes holds a million
		// elements.
		if elements.Len() > keytmpl.MaxKeys {
			return nil, keytmpl.ErrTooManyKeys
		}
		values := make([]string, elements.Len())
		for i := range values {
			values[i] = text(elements.Get(i))
		}
		return values, nil
	}}, nil
}

// elementText returns a function that makes text of a list's element, or of the value at the
// rest of the path.
func elementText(fd protoreflect.FieldDescriptor, rest []keytmpl.Segment, p keytmpl.Placeholder) (func(protoreflect.Value) string, error) {
	if len(rest) == 0 {
		return renderer(fd, p)
	}
	if fd.Message() == nil {
		return nil, noMessage(fd)
	}
	text, err := scalarAt(fd.Message(), rest, p)
	return func(v protoreflect.Value) string { return text(v.Message()) }, err
}
