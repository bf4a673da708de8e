package httprule

import (
	"cmp"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/rule"
)

// maxIdempotencyKey bounds an idempotency key. A UUID has 36 bytes.
const maxIdempotencyKey = 255

// Idempotent says how a rule finds idempotency keys.
type Idempotent struct {
	Caller   func(*http.Request) string
	Header   string // "": Idempotency-Key
	Method   string // "": POST and PATCH
	Optional bool
}

// Idempotency checks a rule for requests that are processed once per caller, route and
// idempotency key. Settings must have neither a template nor a key.
func Idempotency(s Settings, m Memory, i Idempotent) (*Rule, error) {
	var errs []error
	if i.Caller == nil {
		errs = append(errs, errors.New("the function that identifies the caller is nil: without it, one caller could get the response of another"))
	}
	i.Header = cmp.Or(i.Header, "Idempotency-Key")
	if strings.ContainsFunc(i.Header, notToken) {
		errs = append(errs, &core.OptionError{Option: "Header", Value: i.Header, Want: "the name of a header"})
	}
	methods := []string{http.MethodPost, http.MethodPatch}
	if i.Method != "" {
		methods = []string{i.Method}
	}
	if i.Method != strings.ToUpper(i.Method) || strings.ContainsFunc(i.Method, notToken) {
		errs = append(errs, &core.OptionError{Option: "Methods", Value: i.Method, Want: "names such as POST, in capitals"})
	}
	r, err := s.bind(rule.Spec[*request]{
		Name:     cmp.Or(s.Name, "lockhttp.Idempotency"),
		Once:     true,
		Key:      i.key,
		Shown:    "{header." + strings.ToLower(i.Header) + "}",
		Defaults: []core.CallOption{core.WithFailFast()},
		Options:  s.Options,
	}, &m, errs)
	if err != nil {
		return nil, err
	}
	r.methods = methods
	r.applies = func(req *http.Request) bool {
		return slices.Contains(methods, req.Method) && (!i.Optional || len(req.Header.Values(i.Header)) > 0)
	}
	return r, nil
}

// key makes the record's key. It is a digest for two reasons: a caller may be known by a secret
// that should not be in a store, and the parts may have any length.
func (i Idempotent) key(r *request) (string, error) {
	value, problem := idempotencyKey(r.Header.Values(i.Header))
	if problem != "" {
		return "", &HeaderError{Header: http.CanonicalHeaderKey(i.Header), Problem: problem}
	}
	caller, err := keyBy(r, plain(i.Caller))
	if err != nil {
		return "", err
	}
	if caller == "" {
		return "", ErrNoCaller
	}
	route := r.route(r.Request)
	if route == "" {
		route = r.URL.EscapedPath()
	}
	sum := newDigest()
	for _, part := range []string{r.Method, mount(r.Request), route, caller, value} {
		sum.addString(part)
	}
	return "idempotency:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// mount returns what was cut off in front of the path, as http.StripPrefix does. A router that
// is mounted in two places has each of its routes twice.
func mount(req *http.Request) string {
	sent, _, _ := strings.Cut(req.RequestURI, "?")
	prefix, cut := strings.CutSuffix(sent, req.URL.EscapedPath())
	if !cut || !strings.HasPrefix(sent, "/") { // the path was rewritten, or the request is for a proxy
		return ""
	}
	return prefix
}

// ErrNoCaller: the function that identifies the caller returned nothing.
var ErrNoCaller = errors.New("keyturn: the function that identifies the caller returned nothing")

// HeaderError is the error of a request with a missing or invalid idempotency key.
type HeaderError struct {
	Header, Problem string
}

func (e *HeaderError) Error() string { return "keyturn: the header " + e.Header + " " + e.Problem }

// idempotencyKey reads the header's lines. There must be one line, with a string as structured
// fields have it (RFC 9651, 3.3.3), or with the bare text that many clients send. Both are the
// same key. problem is "" if there is a key.
func idempotencyKey(lines []string) (key, problem string) {
	const bad = "is neither a string as in RFC 9651 nor plain text"
	switch {
	case len(lines) == 0:
		return "", "is missing"
	case len(lines) > 1:
		return "", "stands there more than once"
	}
	text := strings.Trim(lines[0], " ")
	if !strings.HasPrefix(text, `"`) {
		if strings.ContainsFunc(text, notBare) {
			return "", bad
		}
		key = text
	} else {
		var ok bool
		if key, ok = unquote(text); !ok {
			return "", bad
		}
	}
	switch {
	case key == "":
		return "", "is empty"
	case len(key) > maxIdempotencyKey:
		return "", "is too long"
	}
	return key, ""
}

// notBare reports whether r cannot be part of a key without quotes, because it means something
// in a structured field.
func notBare(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\,;`, r) }

// unquote reads a string of RFC 9651, 4.2.5. Nothing may follow it: the header has no
// parameters.
func unquote(text string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), i == len(text)-1
		case c == '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			b.WriteByte(text[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false // the closing quote is missing
}
