package keytmpl

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Why different values never make the same key. ("Value" means here: after the filters.)
//
// Read a rendered key as a row of tokens. A token is one character or one escape %XX. No text
// contains a percent sign, so there is only one such reading, and every value and every text
// begins and ends with a token. Call a character special for a placeholder if its escapeSet
// contains it. Such a character is never a token of that placeholder's value, which has %XX
// instead.
//
// escapesBefore makes sure that each text between two placeholders has a character that is
// special for the first of them. Take two lists of values with the same key, and read the key
// from left to right:
//
//   - The text before the first placeholder is the same in both.
//   - Behind it, the first token that is special for this placeholder belongs to the text that
//     follows the value, and is always at the same place in that text. So the first value has
//     the same tokens in both. Undoing the %XX gives the value back, so the first values are
//     equal.
//   - Drop the first value and the text behind it, and go on with the rest. The last value is
//     what is left before the last text.
//
// A slash is special for every placeholder, so the slashes of a key come from its template. If
// they separate levels (core.WithHierarchy), all keys of a template therefore have the same
// depth. The escapes of a value depend on no text behind the next slash. So a key that is cut
// there equals the key of the template that is cut there. That is how a rule for a whole group
// meets the rules for its members.
//
// A digest always takes 64 bytes, so it ends at the same place in both keys. There, equal
// digests mean equal values unless SHA-256 is broken.

// escapeSet has the characters that a value must not contain unescaped in a key: those that alwaysEscaped names,
// and one more.
type escapeSet struct {
	ascii [utf8.RuneSelf]bool // all of them that are ASCII
	extra rune
}

var baseEscapes = newEscapeSet('%') // which is one of them anyway

func newEscapeSet(extra rune) *escapeSet {
	e := &escapeSet{extra: extra}
	for c := range e.ascii {
		e.ascii[c] = alwaysEscaped(rune(c)) || rune(c) == extra
	}
	return e
}

func alwaysEscaped(r rune) bool {
	switch r {
	case '%', ':', '/', '{', '}':
		return true
	}
	return unicode.IsSpace(r) || unicode.IsControl(r)
}

// escapesBefore returns the escapeSet of a placeholder with the text tail behind it. If tail
// separates it from another placeholder and has none of the characters that are always escaped,
// its first character is added.
func escapesBefore(tail string, last bool) *escapeSet {
	if last || strings.ContainsFunc(tail, alwaysEscaped) {
		return baseEscapes
	}
	r, _ := utf8.DecodeRuneInString(tail)
	return newEscapeSet(r)
}

// Escape escapes a value as a template does that separates its placeholders by colons: percent
// signs, colons, slashes, braces, white space, control characters and bytes that are not UTF-8
// become %XX. It is for key functions in Go that should build the same keys as a template. The
// caller has to check for empty values, which stay empty, and for the length of the result.
func Escape(value string) string { return baseEscapes.escape(value) }

// escape returns s itself, without allocating, if there is nothing to escape.
func (e *escapeSet) escape(s string) string {
	const hexDigits = "0123456789ABCDEF"
	clean, size := e.scan(s)
	if size == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+16) // room for eight escapes of ASCII characters
	for size > 0 {
		b = append(b, s[:clean]...)
		for _, c := range []byte(s[clean : clean+size]) {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
		s = s[clean+size:]
		clean, size = e.scan(s)
	}
	return string(append(b, s...))
}

// scan returns the length of the part of s before the first character to escape, and the size
// of that character; size 0: there is none.
func (e *escapeSet) scan(s string) (clean, size int) {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if e.ascii[c] {
				return i, 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if e.hasWide(r, size) {
			return i, size
		}
		i += size
	}
	return len(s), 0
}

func (e *escapeSet) hasWide(r rune, size int) bool {
	invalid := r == utf8.RuneError && size == 1 // the real U+FFFD has three bytes
	return invalid || alwaysEscaped(r) || r == e.extra
}
