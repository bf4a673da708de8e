package memstore_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/storeurl"
)

// Stores of one name share their leases, also after all of them were closed. Others share nothing.
func TestURL(t *testing.T) {
	engine := func(url string) *core.Engine {
		st, err := storeurl.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		eng, err := core.New(st)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = eng.Close(t.Context()) })
		return eng
	}
	if _, err := engine("mem:url-a").TryAcquire(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := engine("mem:url-a").TryAcquire(t.Context(), "k"); !errors.Is(err, core.ErrHeld) {
		t.Errorf("the same name: %v", err)
	}
	for _, other := range []string{"mem:url-b", "mem:", "mem:"} {
		if _, err := engine(other).TryAcquire(t.Context(), "k"); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestURLRefuses(t *testing.T) {
	for _, url := range []string{"mem://host", "mem:?prefix=a", "mem:a?x=1", "mem://me@"} {
		if _, err := storeurl.Open(t.Context(), url); !errors.Is(err, storeurl.ErrInvalidURL) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
