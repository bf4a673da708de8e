// Package jsonpath looks up in a JSON document what a placeholder of a key
// template asks for. It is for middlewares whose requests carry JSON.
//
// The first name of a placeholder's path says which document is meant, as
// payload does in {payload.user.id}; the names after it are members of objects.
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

// Parse decodes data, all of it. As in encoding/json, the last of several
// members with one name counts.
//
// Members are matched by their exact names, where encoding/json, filling a
// struct, also takes a name in other case. So an object that has the name which
// is asked for and, in other case, once more is an error of One and Each:
// {"id":1,"ID":2} would lock 1 and have a handler change 2.
func Parse(data []byte) (Document, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	// A float64 would round ids over 2^53, and two users would share a key.
	dec.UseNumber()
	var d Document
	if err := dec.Decode(&d.root); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // an empty text is not JSON either
		}
		return Document{}, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Document{}, errors.New("not JSON: something follows the first value")
	}
	return d, nil
}

// One returns the value of a placeholder without [*]: a string as it is, a
// number as it is written, a boolean as true or false. What is absent or null
// is keytmpl.ErrMissingValue; an object or a list is no value for a key.
func (d Document) One(p keytmpl.Placeholder) (string, error) {
	v, err := walk(d.root, p.Path[1:])
	if err != nil {
		return "", err
	}
	return text(v)
}

// Each returns the values of a placeholder with [*], one for each element of
// the list. An element without the value is an error, as its work would
// otherwise be done without its lock.
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
	// Looked at before anything is made of it: four megabytes hold a million
	// elements.
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
			return nil, fmt.Errorf("%s is asked of %s", step.Name, kind(v))
		}
		v = object[step.Name]
		if v == nil {
			continue // missing, whatever else is there
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

// kind names what v is, without telling its content.
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
