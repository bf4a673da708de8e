package keytmpl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Filter makes one spelling out of several with the same meaning: 5 of 5.0 and 5e0. Without it
// they are different keys, and two deliveries of one request could both be carried out.
type Filter struct {
	// Name is the text behind the bar, as in {name|nfc}: letters, digits, '_' and '-'.
	Name string
	// Apply returns the spelling that goes into the key. It is called before escaping, from
	// many goroutines, and must always return the same for the same value. Values with
	// different meanings must stay different. A [ValueError] wraps its error, which must not
	// contain the value.
	Apply func(value string) (string, error)
}

// Reasons for which a filter refuses a value, in addition to those in errors.go.
var (
	// ErrNotInteger: the value for |int is not an integer, or has more than 80 digits.
	ErrNotInteger = fmt.Errorf("value is not an integer of at most %d digits", maxDigits)

	// ErrNotText: the value for a text filter is not valid UTF-8.
	ErrNotText = errors.New("value is not valid UTF-8")
)

// lower maps every letter to lower case, one by one and in the same way for every
// language. It is no case folding: "ß" and "ss" stay different.
func lower(value string) (string, error) {
	// ToLower would replace every byte that is not UTF-8 by the same character, so that
	// different values would become equal.
	if !utf8.ValidString(value) {
		return "", ErrNotText
	}
	return strings.ToLower(value), nil
}

// maxDigits bounds the digits that |int writes: 1e999999999 is short.
const maxDigits = 80

// integer reads a number as JSON or strconv.Atoi do, also with a fraction or an exponent if the
// value is an integer, and writes it in decimal digits. It works on the text, because a float64
// would round values above 2^53.
func integer(value string) (string, error) {
	sign, rest := cutSign(value)
	mantissa, exponent, scaled := cutExponent(rest)
	whole, fraction, pointed := strings.Cut(mantissa, ".")
	_, scale := cutSign(exponent)
	if !isDigits(whole) || pointed && !isDigits(fraction) || scaled && !isDigits(scale) {
		return "", ErrNotInteger
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	point := len(digits) - len(fraction) // the position of the decimal point in digits
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return "0", nil
	}
	if scaled {
		n, err := strconv.Atoi(exponent)
		if err != nil || n < -maxExponent || n > maxExponent {
			return "", ErrNotInteger
		}
		point += n
	}
	if point < len(digits) || point > maxDigits {
		return "", ErrNotInteger
	}
	return strings.TrimPrefix(sign, "+") + digits + strings.Repeat("0", point-len(digits)), nil
}

// maxExponent is more than the digits of any value can balance.
const maxExponent = 1 << 30

func cutSign(number string) (sign, rest string) {
	rest = strings.TrimLeft(number, "+-")
	if len(number)-len(rest) > 1 {
		return "", number // a second sign makes it no number
	}
	return number[:len(number)-len(rest)], rest
}

func cutExponent(number string) (mantissa, exponent string, found bool) {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return number, "", false
	}
	return number[:at], number[at+1:], true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
