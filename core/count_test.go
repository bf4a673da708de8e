package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

func TestSetsAreBounded(t *testing.T) {
	many := func(n int) []core.Claim {
		claims := make([]core.Claim, n)
		for i := range claims {
			claims[i] = core.Exclusive(fmt.Sprintf("g/%d", i))
		}
		return claims
	}
	spy := newSpy()
	eng := newEngine(t, spy)
	err := eng.DoAll(bg, many(driver.MaxClaims+1), func(context.Context) error {
		t.Error("it ran without its locks")
		return nil
	}, core.WithRunUnlocked())
	wantOnly(t, err, core.ErrInvalidClaim)
	if !strings.Contains(err.Error(), "4097 claims") || spy.requests() != 0 {
		t.Errorf("%v; the store was asked %d times", err, spy.requests())
	}
	// The most that is allowed, and the level that the engine adds to it.
	l, err := eng.AcquireAll(bg, many(driver.MaxClaims), core.WithHierarchy())
	must(t, err)
	if len(l.Claims()) != driver.MaxClaims+1 {
		t.Errorf("%d claims", len(l.Claims()))
	}
	mustRelease(t, l)
}
