package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mode says how a claim shares its key with others.
type Mode uint8

const (
	// ModeExclusive admits one lease at a time. It is the zero value.
	ModeExclusive Mode = iota
	// ModeShared admits any number of shared leases together, and no exclusive one.
	ModeShared
	// ModePermit admits at most N leases at a time.
	ModePermit
)

// String returns "exclusive", "shared" or "permit".
func (m Mode) String() string {
	switch m {
	case ModeExclusive:
		return "exclusive"
	case ModeShared:
		return "shared"
	case ModePermit:
		return "permit"
	default:
		return "unknown mode"
	}
}

// Claim is a key with the mode in which it is wanted. Make one with
// [Exclusive], [Shared] or [Permit], or several with [Under].
type Claim struct {
	Key  string
	Mode Mode
	flaw flaw // what was wrong when it was made, for Validate to say
	// Permits is the number of leases admitted at a time; ModePermit only.
	Permits int
}

// Exclusive claims key for one lease alone.
func Exclusive(key string) Claim { return Claim{Key: key} }

// Shared claims key together with other shared leases.
func Shared(key string) Claim { return Claim{Key: key, Mode: ModeShared} }

// Permit claims one of n permits of key.
func Permit(key string, n int) Claim { return Claim{Key: key, Mode: ModePermit, Permits: n} }

// Validate reports a key, mode or number of permits that can't be: a
// [*KeyError], or an error that matches [ErrInvalidClaim].
func (c Claim) Validate() error {
	if err := ValidateKey(c.Key); err != nil {
		return err
	}
	switch {
	case c.flaw != flawless:
		return &ClaimError{Key: c.Key, Reason: c.flaw.String()}
	case c.Mode > ModePermit:
		return &ClaimError{Key: c.Key, Reason: "has an unknown mode"}
	case c.Mode == ModePermit && c.Permits < 1:
		return &ClaimError{Key: c.Key, Reason: "asks for less than one permit"}
	case c.Mode != ModePermit && c.Permits != 0:
		return &ClaimError{Key: c.Key, Reason: "has permits but is not a permit claim"}
	}
	return nil
}

// MaxClaims is how many claims a set may have. A lock server carries out one
// request at a time, so a set of a million keys would stop everybody's locks for
// seconds; the set's size often comes from a request.
const MaxClaims = 4096

func checkCount(claims []Claim) error {
	if len(claims) > MaxClaims {
		return &ClaimError{Reason: fmt.Sprintf("has %d claims, more than the %d that are possible", len(claims), MaxClaims)}
	}
	return nil
}

// sortClaims checks a set and puts it in key order: all processes taking their
// keys in one order is what keeps two sets from waiting for each other for ever.
func sortClaims(claims []Claim) error {
	if len(claims) == 0 {
		return &ClaimError{Reason: "is empty"}
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
			return &ClaimError{Key: claims[i].Key, Reason: "stands in the set twice"}
		}
	}
	return nil
}
