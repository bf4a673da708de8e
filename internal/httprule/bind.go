package httprule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
)

// source is where a placeholder's value comes from.
type source = rule.Source[*request]

// binder binds the placeholders of one template to values. Whether a query or a body has a
// value is known only with a request. What a route has is known to the code that adds the
// route. Everything else is checked here.
type binder struct {
	usesBody bool
	params   []string // the route's parameters
}

func (b *binder) bind(p keytmpl.Placeholder) (source, error) {
	switch p.Path[0].Name {
	case "path":
		if p.Multiple() {
			return source{}, errors.New("path has a single value: use [*] only for values that a request may have several times, and for lists in the body")
		}
		name, err := nameOf(p)
		b.params = append(b.params, name)
		return source{One: func(r *request) (string, error) { return r.pathValue(name) }}, err
	case "query":
		return values(p, func(r *request, name string) ([]string, error) {
			if r.query == nil {
				r.query = r.URL.Query()
			}
			return r.query[name], nil
		})
	case "header":
		return values(p, (*request).header)
	case "form":
		b.usesBody = true
		return values(p, func(r *request, name string) ([]string, error) {
			form, err := r.form()
			return form[name], err
		})
	case "body":
		b.usesBody = true
		return inBody(p), nil
	}
	return source{}, errors.New("no such source: want path.<name>, query.<name>, header.<name>, form.<name>, body or body.<path>")
}

func nameOf(p keytmpl.Placeholder) (string, error) {
	if len(p.Path) == 1 {
		return "", fmt.Errorf("a name is missing: want %s.<name>", p.Path[0].Name)
	}
	return rule.Name(p), nil
}

// values binds to something that a request may have several times: to all values with [*],
// otherwise to the only one. Two values where one is meant are refused: a proxy and the handler
// may choose differently, and then lock one key and change another.
func values(p keytmpl.Placeholder, get func(*request, string) ([]string, error)) (source, error) {
	name, err := nameOf(p)
	if err != nil {
		return source{}, err
	}
	if last := len(p.Path) - 1; p.Multiple() && !p.Path[last].Each {
		return source{}, fmt.Errorf("%s has text values: [*] must be at the end", p.Path[0].Name)
	}
	if p.Multiple() {
		return source{Each: func(r *request) ([]string, error) { return get(r, name) }}, nil
	}
	return source{One: func(r *request) (string, error) {
		all, err := get(r, name)
		switch {
		case err != nil:
			return "", err
		case len(all) == 0:
			return "", keytmpl.ErrMissingValue
		case len(all) > 1:
			return "", keytmpl.ErrManyValues
		}
		return all[0], nil
	}}, nil
}

// header returns the values of a header: one for each line.
func (r *request) header(name string) ([]string, error) {
	if strings.EqualFold(name, "host") { // net/http keeps it elsewhere
		return []string{r.Host}, nil
	}
	return r.Header.Values(name), nil
}

// RouteError is the error of a template that does not fit its route. It shows only when a
// request comes, and is not that request's fault.
type RouteError struct {
	Param, Route string
}

func (e *RouteError) Error() string {
	if e.Param == "" {
		return "keyturn: the request has no route: put the middleware behind the router"
	}
	if e.Route == "" {
		return fmt.Sprintf("keyturn: the template has {path.%s}, but the request has no such value: put the rule behind the router", e.Param)
	}
	return fmt.Sprintf("keyturn: the template has {path.%s}, but the route %q has no such parameter", e.Param, e.Route)
}

func (r *request) pathValue(name string) (string, error) {
	value := r.PathValue(name)
	if value == "" && !slices.Contains(parameters(r.Pattern), name) {
		return "", &RouteError{Param: name, Route: r.route(r.Request)}
	}
	return value, nil
}

// inBody binds to the whole body, or to a value in its JSON.
func inBody(p keytmpl.Placeholder) source {
	if p.Multiple() || len(p.Path) > 1 {
		return rule.Inside(p, (*request).json)
	}
	return source{One: func(r *request) (string, error) {
		data, err := r.content()
		return string(data), err
	}}
}
