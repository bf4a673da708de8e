package driver

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxOwnerBytes is the maximum length of an owner, in bytes. The engine makes shorter ones.
const MaxOwnerBytes = 255

// CheckLease checks what each request about a lease names. The engine sends nothing else. A store
// calls it before it does any I/O: a set in another order could deadlock with others, and stores put
// owners into names and values that they read again.
//
//   - The owner has 1 to [MaxOwnerBytes] bytes of UTF-8 without a colon, white space or a zero.
//     Otherwise the error matches [ErrInvalidOwner].
//   - There is one claim at least, each is valid, and they are in the order of their keys, no key
//     twice. Otherwise the error is that of [Claim.Validate], or matches [ErrInvalidClaim].
//   - The TTL is a millisecond or more. Otherwise the error matches [ErrInvalidOption].
func CheckLease(owner string, claims []Claim, ttl time.Duration) error {
	if err := checkClaims(claims); err != nil {
		return err
	}
	if owner == "" || len(owner) > MaxOwnerBytes || !utf8.ValidString(owner) || strings.ContainsAny(owner, ": \t\r\n\x00") {
		return fmt.Errorf("%w: %.*q", ErrInvalidOwner, MaxOwnerBytes, owner)
	}
	return CheckOption(ttl >= time.Millisecond, "TTL", ttl, "1ms or more")
}

func checkClaims(claims []Claim) error {
	if len(claims) == 0 {
		return &ClaimError{Reason: "is empty"}
	}
	for i, c := range claims {
		if err := c.Validate(); err != nil {
			return err
		}
		if i > 0 && claims[i-1].Key >= c.Key {
			return &ClaimError{Key: c.Key, Reason: "is not in key order, or is in the set twice"}
		}
	}
	return nil
}

// CheckOnce checks the claims of an execution of [Ledger]: a store keeps a record for one exclusive claim
// alone. The error matches [errors.ErrUnsupported].
func CheckOnce(claims []Claim) error {
	if len(claims) != 1 || claims[0].Mode != ModeExclusive {
		return &UnsupportedError{Feature: "a record for anything but one exclusive claim"}
	}
	return nil
}

// CheckRetention checks for how long a store is to keep something: a millisecond or more. Otherwise the error
// matches [ErrInvalidOption].
func CheckRetention(d time.Duration) error {
	return CheckOption(d >= time.Millisecond, "retention", d, "1ms or more")
}
