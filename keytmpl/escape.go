package keytmpl

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Why two value tuples never render the same key. A value here is what the filters
// have made of it.
//
// Read a rendered key as a row of tokens, a token being one character or an
// escape %XX. No text contains a percent sign, so this reading is the only one,
// and every value and every text begins and ends where a token does. Call a
// character special for a placeholder if its escapeSet contains it: as a token of
// its own it never occurs in that placeholder's value, which has %XX instead.
//
// newEscapeSet sees to it that each text between two placeholders has a character
// that is special for the first of them. Take two tuples with the same key and go
// from left to right. The text before the first placeholder is the same. The
// first token behind it that is special for this placeholder belongs to the text
// that follows the value, and always at the same place in that text; so the first
// value has the same tokens in both, and is the same, as undoing the %XX gives
// the value back. Drop it and the text behind it and go on with the rest; the
// last value is what is left before the last text.
//
// A slash is special for every placeholder, so those of a key are its template's.
// Where they separate levels (core.WithHierarchy), a template therefore makes
// keys of one depth. And how a value is escaped depends on no text beyond the
// next slash: cut there, the key is the one that the template cut there makes,
// which is how a rule for a whole group meets the rules for its members.
//
// A digest always takes 64 bytes, whatever they are, and so ends at the same
// place in both keys; there, equal means equal unless SHA-256 is broken.

// escapeSet says which characters of a value must not stand in a key as they are.
type escapeSet struct {
	ascii [utf8.RuneSelf]bool
	wide  []rune // beyond ASCII, besides those that alwaysEscaped knows
}

var baseEscapes = newEscapeSet()

func newEscapeSet(extra ...rune) *escapeSet {
	e := new(escapeSet)
	for c := range e.ascii {
		e.ascii[c] = alwaysEscaped(rune(c))
	}
	for _, r := range extra {
		if r < utf8.RuneSelf {
			e.ascii[r] = true
		} else {
			e.wide = append(e.wide, r)
		}
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

// escapesBefore returns what a placeholder's value must not contain, if tail is
// the text behind it: where that separates it from another placeholder and has
// none of the characters that are always escaped, its first one, too.
func escapesBefore(tail string, last bool) *escapeSet {
	if last || strings.ContainsFunc(tail, alwaysEscaped) {
		return baseEscapes
	}
	r, _ := utf8.DecodeRuneInString(tail)
	return newEscapeSet(r)
}

// Escape writes a value the way a template does that separates its placeholders
// by colons: percent signs, colons, slashes, braces, white space, control
// characters and bytes that are not UTF-8 become %XX. It is for key functions written in Go,
// which should build the same keys as a template next to them. The empty value
// stays empty, and the length of the result is not limited: both are for the
// caller to check.
func Escape(value string) string { return baseEscapes.escape(value) }

// escape returns s itself, without allocating, if there is nothing to escape.
func (e *escapeSet) escape(s string) string {
	const hexDigits = "0123456789ABCDEF"
	clean, size := e.scan(s)
	if size == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+16) // room for eight escapes in ASCII
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

// scan returns the length of the part of s before the first character to escape,
// and the size of that character: 0 if there is none.
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
	return invalid || alwaysEscaped(r) || slices.Contains(e.wide, r)
}
