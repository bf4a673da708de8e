package rule

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/keyturn/keyturn/keytmpl"
)

// nfc is the filter |nfc of all middlewares: text in Unicode's normal form C (UAX 15), in which
// "é" is always one character. It is in this package because keytmpl uses only the standard
// library.
var nfc = &keytmpl.Filter{Name: "nfc", Apply: func(value string) (string, error) {
	if !utf8.ValidString(value) {
		return "", keytmpl.ErrNotText
	}
	return norm.NFC.String(value), nil
}}
