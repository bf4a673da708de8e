package keytmpl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Reasons why values make no key, matched with errors.Is. They are the fault of the request,
// not of the service, with one exception: Key was called on a template with [*].
var (
	// ErrMissingValue: a value is missing or empty, or a list has no elements.
	// A lookup function may return it too.
	ErrMissingValue = errors.New("value is missing or empty")

	// ErrManyValues: several values where exactly one can go into the key.
	ErrManyValues = errors.New("more than one value")

	// ErrTooLong: the key would be longer than MaxKeyBytes.
	ErrTooLong = fmt.Errorf("key is longer than %d bytes", MaxKeyBytes)

	// ErrTooManyKeys: the list behind [*] has more than MaxKeys elements.
	ErrTooManyKeys = fmt.Errorf("list has more than %d elements", MaxKeys)
)

// SyntaxError says what is wrong with a template, and where. A middleware that refuses a
// placeholder, because the request has no such field, can use it for a message of the same
// form.
type SyntaxError struct {
	Template string
	Pos      int    // byte offset in Template; its length if the template ends too early
	Found    string // what is there
	Want     string // what should be there
}

func (e *SyntaxError) Error() string {
	// A template over the limit may be a whole file by mistake, so the message does not print
	// all of it.
	template, cut := e.Template, ""
	if len(template) > MaxKeyBytes {
		template, cut = template[:64], "..."
	}
	return fmt.Sprintf("keytmpl: template %s%s: found %s at byte %d, want %s",
		strconv.Quote(template), cut, e.Found, e.Pos, e.Want)
}

// ValueError says which placeholder could not be rendered, and why. It never contains the
// value, which may be private, because errors end up in logs.
type ValueError struct {
	Template    string
	Placeholder Placeholder
	Element     int    // index in the list behind [*]; -1 if the error is not about one element
	Err         error  // one of the sentinels, or the error of the lookup function
	Hint        string // what would help; may be empty
}

const noElement = -1

func (e *ValueError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "keytmpl: template %s: ", strconv.Quote(e.Template))
	if len(e.Placeholder.Path) > 0 {
		fmt.Fprintf(&b, "%v at byte %d: ", e.Placeholder, e.Placeholder.Pos)
	}
	if e.Element >= 0 {
		fmt.Fprintf(&b, "element %d: ", e.Element)
	}
	fmt.Fprint(&b, e.Err)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *ValueError) Unwrap() error { return e.Err }
