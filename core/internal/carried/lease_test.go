package carried_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/carried"
)

func TestClaims(t *testing.T) {
	l := carried.Lease{Claims: carried.DescribeClaims([]driver.Claim{driver.Exclusive("a"), driver.Shared("b"), driver.Permit("c", 5)})}
	if !carried.AreClaims(l.Claims) || strings.Contains(l.Claims, "a:") {
		t.Errorf("%q", l.Claims)
	}
	for wanted, want := range map[driver.Claim]driver.Claim{
		driver.Exclusive("a"): driver.Exclusive("a"),
		driver.Shared("a"):    driver.Exclusive("a"),
		driver.Exclusive("b"): driver.Shared("b"),
		driver.Permit("c", 9): driver.Permit("c", 9),
		driver.Exclusive("c"): driver.Permit("c", 1),
		driver.Exclusive("d"): {},
	} {
		if got, has := l.ClaimOn(wanted, carried.HashKey(wanted.Key)); got != want || has != (want != driver.Claim{}) {
			t.Errorf("%v: held as %v, %v; want %v", wanted, got, has, want)
		}
	}
}

func TestWhatAreNoClaims(t *testing.T) {
	good := carried.DescribeClaims([]driver.Claim{driver.Exclusive("a")})
	for _, s := range []string{"", "e", good + "e", "x" + good[1:], "e" + strings.Repeat("g", 16)} {
		if carried.AreClaims(s) {
			t.Errorf("%q is taken", s)
		}
	}
}
