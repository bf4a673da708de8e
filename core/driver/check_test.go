package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

func TestCheckLease(t *testing.T) {
	a, b := driver.Exclusive("a"), driver.Shared("b")
	one := []driver.Claim{a}
	for name, c := range map[string]struct {
		owner  string
		claims []driver.Claim
		ttl    time.Duration
		want   error // nil: all is fine
	}{
		"one":                {"o", one, time.Millisecond, nil},
		"in order":           {"o", []driver.Claim{a, b}, time.Second, nil},
		"no claims":          {"o", nil, time.Second, driver.ErrInvalidClaim},
		"not in order":       {"o", []driver.Claim{b, a}, time.Second, driver.ErrInvalidClaim},
		"a key twice":        {"o", []driver.Claim{a, driver.Shared("a")}, time.Second, driver.ErrInvalidClaim},
		"no key":             {"o", []driver.Claim{driver.Exclusive("")}, time.Second, driver.ErrInvalidKey},
		"no permit":          {"o", []driver.Claim{a, driver.Permit("b", 0)}, time.Second, driver.ErrInvalidClaim},
		"a bad one behind":   {"o", []driver.Claim{a, {Key: "b", Mode: 9}}, time.Second, driver.ErrInvalidClaim},
		"the longest owner":  {strings.Repeat("o", driver.MaxOwnerBytes), one, time.Second, nil},
		"a longer owner":     {strings.Repeat("o", driver.MaxOwnerBytes+1), one, time.Second, driver.ErrInvalidOwner},
		"no owner":           {"", one, time.Second, driver.ErrInvalidOwner},
		"a colon":            {"o:p", one, time.Second, driver.ErrInvalidOwner},
		"white space":        {"o\tp", one, time.Second, driver.ErrInvalidOwner},
		"a zero":             {"o\x00", one, time.Second, driver.ErrInvalidOwner},
		"an owner in Latin1": {"\xe4", one, time.Second, driver.ErrInvalidOwner},
		"no TTL":             {"o", one, 0, driver.ErrInvalidOption},
		"microseconds":       {"o", one, time.Millisecond - 1, driver.ErrInvalidOption},
	} {
		if err := driver.CheckLease(c.owner, c.claims, c.ttl); !errors.Is(err, c.want) {
			t.Errorf("%s: CheckLease = %v, want %v", name, err, c.want)
		}
	}
}
