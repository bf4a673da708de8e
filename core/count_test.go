package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestSetsAreBounded(t *testing.T) {
	many := func(n int) []core.Claim {
		claims := make([]core.Claim, n)
		for i := range claims {
			claims[i] = core.Exclusive(fmt.Sprintf("g/%d", i))
		}
		return claims
	}
	sets := newSpy()
	eng := newEngine(t, sets)
	_, acquired := eng.AcquireAll(bg, many(driver.MaxClaims+1))
	done := eng.DoAll(bg, many(driver.MaxClaims+1), func(context.Context) error {
		t.Error("it ran without its locks")
		return nil
	}, core.WithRunUnlocked())
	for _, err := range []error{acquired, done} {
		var bad *driver.ClaimError
		if !errors.As(err, &bad) || bad.Key != "" || !strings.Contains(err.Error(), "4097 claims") {
			t.Errorf("%v", err)
		}
		wantOnly(t, err, core.ErrInvalidClaim)
	}
	if len(sets.asked) != 0 {
		t.Errorf("the store was asked %d times", len(sets.asked))
	}

	// The most that is allowed, and the level that the engine adds to it.
	eng = newEngine(t, memstore.New())
	l, err := eng.AcquireAll(bg, many(driver.MaxClaims), core.WithHierarchy())
	if err != nil || len(l.Claims()) != driver.MaxClaims+1 {
		t.Fatalf("%v", err)
	}
	mustRelease(t, l)
}
