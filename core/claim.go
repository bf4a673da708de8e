package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// Claim is a key with the mode in which it is wanted. Make one with
// [Exclusive], [Shared] or [Permit], or several with [Under].
type Claim = driver.Claim

// Exclusive claims key for one lease alone.
func Exclusive(key string) Claim { return driver.Exclusive(key) }

// Shared claims key together with other shared leases.
func Shared(key string) Claim { return driver.Shared(key) }

// Permit claims one of n permits of key: at most n leases are in force at a time.
func Permit(key string, n int) Claim { return driver.Permit(key, n) }

func checkCount(claims []Claim) error {
	if len(claims) > driver.MaxClaims {
		return &driver.ClaimError{Reason: fmt.Sprintf("has %d claims, more than the %d that are possible", len(claims), driver.MaxClaims)}
	}
	return nil
}

// sortClaims checks a set and puts it in key order: all processes taking their
// keys in one order is what keeps two sets from waiting for each other for ever.
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
			return &driver.ClaimError{Key: claims[i].Key, Reason: "stands in the set twice"}
		}
	}
	return nil
}
