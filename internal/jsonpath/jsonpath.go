package jsonpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/keytmpl"
)

// Document is a decoded JSON text. It is safe for concurrent use.
type Document struct {
	root any
}

// Parse decodes data, all of it. As in encoding/json, the last of several members with one name
// counts.
//
// Members are matched by their exact names. encoding/json is different: when it fills a struct,
// it also takes a name in other case. So it is an error of One and Each if an object has the
// wanted name and, in other case, once more: {"id":1,"ID":2} would lock 1 and make a handler
// change 2.
func Parse(data []byte) (Document, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	// A float64 would round ids over 2^53, and two users would share a key.
	dec.UseNumber()
	var d Document
	if err := dec.Decode(&d.root); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // an empty text is not JSON
		}
		return Document{}, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Document{}, errors.New("not JSON: there is more after the first value")
	}
	return d, nil
}

// One returns the value of a placeholder without [*]: a string unchanged, a number as it is
// written, a boolean as true or false. A value that is absent or null is
// keytmpl.ErrMissingValue. An object or a list is an error, because it is no value for a key.
func (d Document) One(p keytmpl.Placeholder) (string, error) {
	v, err := walk(d.root, p.Path[1:])
	if err != nil {
		return "", err
	}
	return text(v)
}

// Each returns the values of a placeholder with [*], one for each element of the list. An
// element without the value is an error, because its work would otherwise be done without its
// lock.
func (d Document) Each(p keytmpl.Placeholder) ([]string, error) {
	at := 0
	for at < len(p.Path)-1 && !p.Path[at].Each {
		at++
	}
	v, err := walk(d.root, p.Path[1:at+1])
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s, not a list", p.Path[at].Name, kind(v))
	}
	// Checked before the values are made: four megabytes hold a million elements.
	if len(list) > keytmpl.MaxKeys {
		return nil, keytmpl.ErrTooManyKeys
	}
	values := make([]string, len(list))
	for i, element := range list {
		v, err := walk(element, p.Path[at+1:])
		if err == nil {
			values[i], err = text(v)
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return values, nil
}

// walk follows the names of path into v.
func walk(v any, path []keytmpl.Segment) (any, error) {
	for _, step := range path {
		object, ok := v.(map[string]any)
		if !ok && v != nil {
			return nil, fmt.Errorf("%s is requested from %s", step.Name, kind(v))
		}
		v = object[step.Name]
		if v == nil {
			continue // missing, whatever else there is
		}
		for name := range object {
			if name != step.Name && strings.EqualFold(name, step.Name) {
				return nil, fmt.Errorf("the object has %s twice, in different case", step.Name)
			}
		}
	}
	if v == nil {
		return nil, keytmpl.ErrMissingValue
	}
	return v, nil
}

func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("value is %s", kind(v))
}

// kind names the type of v without its content.
func kind(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	default:
		return "a boolean"
	}
}
