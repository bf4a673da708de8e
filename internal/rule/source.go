package rule

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/keytmpl"
)

// Source gets a placeholder's value from a request: One for a placeholder without [*], Each for
// one with [*].
type Source[R any] struct {
	One  func(R) (string, error)
	Each func(R) ([]string, error)
}

// Document is a part of a request in which placeholders name values, such as a body in JSON.
type Document interface {
	One(p keytmpl.Placeholder) (string, error)
	Each(p keytmpl.Placeholder) ([]string, error)
}

// Inside binds a placeholder to a value inside of a document, or with [*] to several.
func Inside[R any, D Document](p keytmpl.Placeholder, document func(R) (D, error)) Source[R] {
	if p.Multiple() {
		return Source[R]{Each: func(req R) ([]string, error) {
			doc, err := document(req)
			if err != nil {
				return nil, err
			}
			return doc.Each(p)
		}}
	}
	return Source[R]{One: func(req R) (string, error) {
		doc, err := document(req)
		if err != nil {
			return "", err
		}
		return doc.One(p)
	}}
}

// Name returns the name behind a placeholder's source. It may contain dots, which a template takes for
// steps of a path.
func Name(p keytmpl.Placeholder) string {
	steps := make([]string, len(p.Path)-1)
	for i, s := range p.Path[1:] {
		steps[i] = s.Name
	}
	return strings.Join(steps, ".")
}

// FromJSON turns a typed key function into one for requests with a T in JSON. An empty key is
// keytmpl.ErrMissingValue. nil stays nil.
func FromJSON[R, T any](key func(T) string, data func(R) []byte) func(R) (string, error) {
	if key == nil {
		return nil
	}
	return func(req R) (string, error) {
		v, err := decode[T](data(req))
		if err != nil {
			return "", err
		}
		k := key(v)
		if k == "" {
			return "", fmt.Errorf("key function: %w", keytmpl.ErrMissingValue)
		}
		return k, nil
	}
}

// KeyFromJSON is FromJSON for a function that gets the context of the work and may fail.
func KeyFromJSON[R, T any](key func(context.Context, T) (string, error), data func(R) (context.Context, []byte)) func(R) (string, error) {
	if key == nil {
		return nil
	}
	return func(req R) (string, error) {
		ctx, text := data(req)
		v, err := decode[T](text)
		if err != nil {
			return "", err
		}
		return key(ctx, v)
	}
}

// KeysFromJSON is FromJSON for a function that gets the context of the work, and returns all keys. nil
// stays nil.
func KeysFromJSON[R, T any](keys func(context.Context, T) ([]string, error), data func(R) (context.Context, []byte)) func(R) ([]string, error) {
	if keys == nil {
		return nil
	}
	return func(req R) ([]string, error) {
		ctx, text := data(req)
		v, err := decode[T](text)
		if err != nil {
			return nil, err
		}
		return keys(ctx, v)
	}
}

// decode has errors that match core.ErrInvalidKey, because a repeat makes nothing better. An own error
// of a key function may be about a database that is away.
func decode[T any](text []byte) (v T, err error) {
	if err = json.Unmarshal(text, &v); err != nil {
		err = fmt.Errorf("%w: not JSON of a %T: %w", core.ErrInvalidKey, v, err)
	}
	return v, err
}
