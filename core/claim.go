package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// Claim is a key and how it is shared. Make one with [Exclusive], [Shared] or [Permit], or several
// with [Under]. A key is 1 to 512 bytes of UTF-8, without control characters and braces. Fields:
// see [driver.Claim].
type Claim = driver.Claim

// Exclusive claims key alone: no other lease on key is in force at the same time.
func Exclusive(key string) Claim { return driver.Exclusive(key) }

// Shared claims key together with other shared leases, and with no exclusive one.
func Shared(key string) Claim { return driver.Shared(key) }

// Permit claims one of n permits of key: at most n such leases are in force at a time. An n below 1
// is an error of the acquisition that matches ErrInvalidClaim.
func Permit(key string, n int) Claim { return driver.Permit(key, n) }

func checkCount(claims []Claim) error {
	if len(claims) > driver.MaxClaims {
		return &driver.ClaimError{Reason: fmt.Sprintf("has %d claims; the maximum is %d", len(claims), driver.MaxClaims)}
	}
	return nil
}

// sortClaims checks a set and puts it in key order. All processes take their keys in that
// order, so two sets never deadlock with each other.
func sortClaims(claims []Claim) error {
	if len(claims) == 0 {
		return &driver.ClaimError{Reason: "is empty"}
	}
	var errs []error
	for _, c := range claims {
		if err := c.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	slices.SortFunc(claims, func(a, b Claim) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(claims); i++ {
		if claims[i].Key == claims[i-1].Key {
			return &driver.ClaimError{Key: claims[i].Key, Reason: "is in the set twice"}
		}
	}
	return nil
}
