package storeurl

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Params reads the parameters of a URL. Each method takes one parameter, and reports false if the
// URL does not have it or its value is wrong. [Params.Err] then returns all that is wrong at once:
//
//	p := u.Params()
//	if prefix, ok := p.String("prefix"); ok {
//		opts = append(opts, WithPrefix(prefix))
//	}
//	if err := p.Err(); err != nil {
//		return nil, err
//	}
type Params struct {
	left url.Values
	errs []error
}

// Params returns a reader of u's parameters.
func (u *URL) Params() *Params { return &Params{left: maps.Clone(u.Query)} }

// String takes the parameter name. It may be empty.
func (p *Params) String(name string) (string, bool) {
	values, ok := p.left[name]
	delete(p.left, name)
	if len(values) > 1 {
		p.bad(name, "it once")
		return "", false
	}
	if !ok {
		return "", false
	}
	return values[0], true
}

// Duration takes the parameter name, which is written as Go does: 6s, 200ms.
func (p *Params) Duration(name string) (time.Duration, bool) {
	return read(p, name, "a duration, such as 6s or 200ms", time.ParseDuration)
}

// Int takes the parameter name.
func (p *Params) Int(name string) (int, bool) { return read(p, name, "a number", strconv.Atoi) }

// Bool takes the parameter name, which is true or false.
func (p *Params) Bool(name string) (bool, bool) {
	return read(p, name, "true or false", strconv.ParseBool)
}

// OneOf takes the parameter name, which is one of values.
func (p *Params) OneOf(name string, values ...string) (string, bool) {
	return read(p, name, "one of "+strings.Join(values, ", "), func(s string) (string, error) {
		if !slices.Contains(values, s) {
			return "", ErrInvalidURL
		}
		return s, nil
	})
}

// Rest takes all parameters that are left, for a client library that checks its own.
func (p *Params) Rest() url.Values {
	rest := p.left
	p.left = nil
	return rest
}

// Err joins a [*ParamError] for each parameter that was wrong, and for each that nobody took. Nil:
// all is well.
func (p *Params) Err() error {
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		p.bad(name, "")
	}
	p.left = nil
	return errors.Join(p.errs...)
}

func (p *Params) bad(name, want string) {
	p.errs = append(p.errs, &ParamError{Name: name, Want: want})
}

func read[T any](p *Params, name, want string, parse func(string) (T, error)) (value T, ok bool) {
	text, ok := p.String(name)
	if !ok {
		return value, false
	}
	value, err := parse(text)
	if err != nil {
		p.bad(name, want)
		return value, false
	}
	return value, true
}
