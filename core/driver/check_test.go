package driver_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
)

func TestCheckClaims(t *testing.T) {
	a, b := driver.Exclusive("a"), driver.Shared("b")
	for name, c := range map[string]struct {
		claims []driver.Claim
		want   error // nil: the claims are fine
	}{
		"one":              {[]driver.Claim{a}, nil},
		"in order":         {[]driver.Claim{a, b}, nil},
		"none":             {nil, driver.ErrInvalidClaim},
		"not in order":     {[]driver.Claim{b, a}, driver.ErrInvalidClaim},
		"a key twice":      {[]driver.Claim{a, driver.Shared("a")}, driver.ErrInvalidClaim},
		"no key":           {[]driver.Claim{driver.Exclusive("")}, driver.ErrInvalidKey},
		"no permit":        {[]driver.Claim{a, driver.Permit("b", 0)}, driver.ErrInvalidClaim},
		"a bad one behind": {[]driver.Claim{a, {Key: "b", Mode: 9}}, driver.ErrInvalidClaim},
	} {
		if err := driver.CheckClaims(c.claims); !errors.Is(err, c.want) {
			t.Errorf("%s: CheckClaims = %v, want %v", name, err, c.want)
		}
	}
}
