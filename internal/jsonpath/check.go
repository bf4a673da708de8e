package jsonpath

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/keyturn/keyturn/keytmpl"
)

// Check tells at start whether documents of a Go type, as encoding/json makes them, can have a
// value for a placeholder. These are errors: an unknown field, an object or a list where a
// single value is needed, a list without [*], and [*] without a list. Check accepts a type that
// does not say what its JSON looks like (an interface, a json.RawMessage, a type with
// MarshalJSON or UnmarshalJSON), and everything below it.
//
// A field that may be absent, because of omitempty or a nil pointer, is no error here: only a
// document can tell.
func Check(t reflect.Type, p keytmpl.Placeholder) error {
	for i, step := range p.Path {
		t = deref(t)
		if open(t) {
			return nil
		}
		var err error
		if i > 0 { // the first name names the document
			if t, err = member(t, step.Name); err != nil {
				return err
			}
			t = deref(t)
		}
		if step.Each && !open(t) {
			if !list(t) {
				return fmt.Errorf("%s is %s, not a list", step.Name, shape(t))
			}
			t = t.Elem()
		}
	}
	if t = deref(t); open(t) || scalar(t) {
		return nil
	}
	name := p.Path[len(p.Path)-1].Name
	if list(t) {
		return fmt.Errorf("%s is a list: want %s[*]", name, name)
	}
	return fmt.Errorf("%s is %s, not a single value", name, shape(t))
}

// member returns the type of the member with that name in objects of t.
func member(t reflect.Type, name string) (reflect.Type, error) {
	switch {
	case scalar(t), list(t):
		return nil, fmt.Errorf("%s is requested from %s", name, shape(t))
	case t.Kind() == reflect.Map:
		return t.Elem(), nil
	case t.Kind() != reflect.Struct:
		return nil, fmt.Errorf("%s is requested from %s", name, shape(t))
	}
	all := fields(t)
	if f, ok := all[name]; ok {
		if f.clash {
			return nil, fmt.Errorf("%s has several fields %s, so encoding/json leaves all of them out", shape(t), name)
		}
		return f.t, nil
	}
	for other := range all {
		if strings.EqualFold(other, name) {
			return nil, fmt.Errorf("%s has no field %s: want %s", shape(t), name, other)
		}
	}
	return nil, fmt.Errorf("%s has no field %s", shape(t), name)
}

// field is a member of an object.
type field struct {
	t      reflect.Type
	tagged bool
	clash  bool // there is another with the same name, and neither has precedence
}

// fields follows the rules of encoding/json. The fields of embedded structs count as the outer
// struct's. Of several with one name, the least deep wins, and at one depth the one with a tag.
// reflect.VisibleFields does not help: it goes by names in Go, so it leaves out a field that a
// document has under the name in its tag.
func fields(t reflect.Type) map[string]field {
	all := make(map[string]field)
	seen := map[reflect.Type]bool{t: true}
	for level := []reflect.Type{t}; len(level) > 0; {
		found := make(map[string]field)
		var next []reflect.Type
		for _, t := range level {
			for i := range t.NumField() {
				f := t.Field(i)
				name, inner := named(f)
				switch {
				case inner != nil:
					next = append(next, inner)
				case name != "":
					_, tagged := tag(f)
					merge(found, name, field{t: f.Type, tagged: tagged})
				}
			}
		}
		for name, f := range found {
			if _, ok := all[name]; !ok {
				all[name] = f
			}
		}
		level = nil
		for _, t := range next {
			// A type that is embedded in itself adds nothing. A type that is embedded twice at
			// this depth clashes with itself, so it stays in twice.
			if !seen[t] {
				level = append(level, t)
			}
		}
		for _, t := range level {
			seen[t] = true
		}
	}
	return all
}

func merge(found map[string]field, name string, f field) {
	switch old, ok := found[name]; {
	case !ok, f.tagged && !old.tagged:
		found[name] = f
	case old.tagged == f.tagged:
		old.clash = true
		found[name] = old
	}
}

// named returns a field's name in JSON. For a struct that is embedded without a name, it
// returns the struct whose fields take its place. If encoding/json ignores the field, it
// returns neither.
func named(f reflect.StructField) (name string, inner reflect.Type) {
	name, tagged := tag(f)
	if tagged && name == "-" && !strings.Contains(f.Tag.Get("json"), ",") {
		return "", nil
	}
	if f.Anonymous && !tagged {
		if t := deref(f.Type); t.Kind() == reflect.Struct {
			return "", t
		}
	}
	if !f.IsExported() {
		return "", nil
	}
	return name, nil
}

// tag returns a field's name in JSON, and whether the name is from its tag.
func tag(f reflect.StructField) (name string, tagged bool) {
	if name, _, _ = strings.Cut(f.Tag.Get("json"), ","); name != "" {
		return name, true
	}
	return f.Name, false
}

var (
	marshalsJSON   = reflect.TypeFor[json.Marshaler]()
	unmarshalsJSON = reflect.TypeFor[json.Unmarshaler]()
	marshalsText   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalsText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func implements(t reflect.Type, either, or reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(either) || p.Implements(or) // a pointer also has the methods of its type
}

// open reports whether t does not say what its JSON looks like.
func open(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || implements(t, marshalsJSON, unmarshalsJSON)
}

func scalar(t reflect.Type) bool {
	if implements(t, marshalsText, unmarshalsText) {
		return true
	}
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Float64, k == reflect.String:
		return true
	case k == reflect.Slice: // a slice of bytes becomes one string
		return t.Elem().Kind() == reflect.Uint8 && !implements(t.Elem(), marshalsJSON, marshalsText)
	}
	return false
}

func list(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && !scalar(t)
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// shape describes t in JSON, with its name in Go.
func shape(t reflect.Type) string {
	switch {
	case scalar(t):
		return fmt.Sprintf("a single value (%v)", t)
	case list(t):
		return fmt.Sprintf("a list (%v)", t)
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return fmt.Sprintf("an object (%v)", t)
	}
	return fmt.Sprintf("nothing in JSON (%v)", t)
}
