package rule

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/jsonpath"
	"github.com/keyturn/keyturn/keytmpl"
)

// Source gets a placeholder's value from a request: One for a placeholder without [*], Each for
// one with [*].
type Source[R any] struct {
	One  func(R) (string, error)
	Each func(R) ([]string, error)
}

// Inside binds a placeholder to a value inside of a document, or with [*] to several.
func Inside[R any](p keytmpl.Placeholder, document func(R) (jsonpath.Document, error)) Source[R] {
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

// FromJSON turns a typed key function, of one key or of several, into one for requests with a T in JSON. It gets the
// context of the work. An error about the JSON matches core.ErrInvalidKey, because a repeat makes nothing better. An own
// error of a key function may be about a database that is away. nil stays nil.
func FromJSON[R, T, K any](key func(context.Context, T) (K, error), data func(R) (context.Context, []byte)) func(R) (K, error) {
	if key == nil {
		return nil
	}
	return func(req R) (none K, err error) {
		ctx, text := data(req)
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			return none, fmt.Errorf("%w: not JSON of a %T: %w", core.ErrInvalidKey, v, err)
		}
		return key(ctx, v)
	}
}

// Plain makes a key function for [FromJSON] of one that needs no context and has no errors. An empty key is
// keytmpl.ErrMissingValue. nil stays nil.
func Plain[T any](key func(T) string) func(context.Context, T) (string, error) {
	if key == nil {
		return nil
	}
	return func(_ context.Context, v T) (string, error) {
		k := key(v)
		if k == "" {
			return "", fmt.Errorf("key function: %w", keytmpl.ErrMissingValue)
		}
		return k, nil
	}
}
