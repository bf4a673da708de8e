package driver

import (
	"unicode"
	"unicode/utf8"
)

// MaxKeyBytes is the maximum length of a key, in bytes.
const MaxKeyBytes = 512

// ValidateKey reports whether key may name a lock: valid UTF-8, 1 to [MaxKeyBytes] bytes, no
// control characters and no braces. The error is a [*KeyError], which matches [ErrInvalidKey].
//
// Braces are refused because Redis reads them as a hash tag. A key with a hash tag of its own
// could be in another slot than its side keys, and no script could then reach both. Control
// characters are refused because keys are written to logs.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return &KeyError{Key: key, Reason: "is empty"}
	case len(key) > MaxKeyBytes:
		return &KeyError{Key: key, Reason: "is longer than 512 bytes"}
	case !utf8.ValidString(key):
		return &KeyError{Key: key, Reason: "is not valid UTF-8"}
	}
	for _, r := range key {
		switch {
		case r == '{' || r == '}':
			return &KeyError{Key: key, Reason: "contains a brace"}
		case unicode.IsControl(r):
			return &KeyError{Key: key, Reason: "contains a control character"}
		}
	}
	return nil
}
