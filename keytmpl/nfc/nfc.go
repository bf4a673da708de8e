// Package nfc adds the filter |nfc to the key templates of a program that imports it:
//
//	import _ "github.com/keyturn/keyturn/keytmpl/nfc"
//
// The filter puts text into Unicode's normal form C (UAX 15), in which "é" is one
// character, whether it was typed as one or as an e with an accent behind it. Without
// it these are different keys. It refuses bytes that are not UTF-8 with
// [keytmpl.ErrNotText].
//
// It is a module of its own, because it needs golang.org/x/text. Its tables belong to
// the version of Unicode that the Go release has. Unicode promises that characters which
// a version knows keep their normal form in later ones.
package nfc

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/keyturn/keyturn/keytmpl"
)

func init() { keytmpl.Register(&keytmpl.Filter{Name: "nfc", Apply: compose}) }

func compose(value string) (string, error) {
	// norm would leave such bytes as they are, and the key must be text.
	if !utf8.ValidString(value) {
		return "", keytmpl.ErrNotText
	}
	return norm.NFC.String(value), nil
}
