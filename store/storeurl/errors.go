package storeurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ErrInvalidURL: the URL of a store is wrong: it cannot be read, its scheme is not registered
// ([UnknownSchemeError]), or a parameter is wrong ([ParamError]). A store refuses a value that it
// cannot use with a [*driver.OptionError] instead, as its own constructor does.
var ErrInvalidURL = errors.New("invalid store URL")

// Error says which URL could not be opened, and why. Neither its text nor that of Err has a
// password in it.
type Error struct {
	URL string // without user, password and parameters; "" if the text was no URL
	Err error
}

func (e *Error) Error() string {
	text := strings.TrimPrefix(e.Err.Error(), "keyturn: ") // one name in front is enough
	if e.URL == "" {
		return "storeurl: " + text
	}
	return fmt.Sprintf("storeurl: %s: %s", e.URL, text)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// UnknownSchemeError says that no imported package has registered the scheme. It matches
// [ErrInvalidURL].
type UnknownSchemeError struct {
	Scheme     string
	Registered []string // in alphabetical order
	// Import is the package of this project that registers the scheme; "": there is none.
	Import string
}

func (e *UnknownSchemeError) Error() string {
	known := "none is"
	if len(e.Registered) > 0 {
		known = "these are: " + strings.Join(e.Registered, ", ")
	}
	if e.Import == "" {
		return fmt.Sprintf("the scheme %.40q is not registered; %s", e.Scheme, known)
	}
	return fmt.Sprintf("the scheme %q is not registered (the program does not import %s); %s", e.Scheme, e.Import, known)
}

// Is makes errors.Is(err, ErrInvalidURL) true.
func (e *UnknownSchemeError) Is(target error) bool { return target == ErrInvalidURL }

// ParamError says which parameter of a URL is wrong. It does not have the value, which may be
// secret. It matches [ErrInvalidURL].
type ParamError struct {
	Name string
	Want string // "" if there is no such parameter
}

func (e *ParamError) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("there is no parameter %.40q", e.Name)
	}
	return fmt.Sprintf("the parameter %q: want %s", e.Name, e.Want)
}

// Is makes errors.Is(err, ErrInvalidURL) true.
func (e *ParamError) Is(target error) bool { return target == ErrInvalidURL }

// hidden is what replaces a secret.
const hidden = "xxxxx"

// redacted is an error whose text had a secret in it. It is still what it was for errors.Is, but
// gives nobody the original, whose text anybody could print.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Is reports whether the original matches target.
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }

// clean takes the secrets of u out of the text of err.
func (u *URL) clean(err error) error {
	text := err.Error()
	for _, secret := range u.secrets() {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	if text == err.Error() {
		return err
	}
	return &redacted{text: text, err: err}
}

// secrets returns what no error may say, as it is and as it is written in a URL, the longest first.
func (u *URL) secrets() []string {
	plain := []string{u.Password()}
	for name, values := range u.Query {
		if strings.Contains(strings.ToLower(name), "pass") {
			plain = append(plain, values...)
		}
	}
	var all []string
	for _, s := range plain {
		if s != "" {
			all = append(all, s, url.QueryEscape(s), url.PathEscape(s), strings.TrimPrefix(url.UserPassword("", s).String(), ":"))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}
