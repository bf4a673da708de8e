package core

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/driver"
)

// note is a rule's name as stores keep it: the first [driver.MaxNoteBytes] of it.
func note(rule string) string {
	if len(rule) <= driver.MaxNoteBytes {
		return rule
	}
	return strings.ToValidUTF8(rule[:driver.MaxNoteBytes], "")
}

// isNote reports whether every store keeps text as it is: see [driver.Request].
func isNote(text string) bool {
	return len(text) <= driver.MaxNoteBytes && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
