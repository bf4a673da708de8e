package memstore_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/storeurl"
)

var (
	must   = checktest.Must
	check  = checktest.That
	wantIs = checktest.WantIs
)

// Stores of one name share their leases, also after all of them were closed. Others share nothing.
func TestURL(t *testing.T) {
	engine := func(url string) *core.Engine {
		st, err := storeurl.Open(t.Context(), url)
		must(t, err)
		eng, err := core.New(st)
		must(t, err)
		t.Cleanup(func() { _ = eng.Close(t.Context()) })
		return eng
	}
	must(t, checktest.ErrorOf(engine("mem:url-a").TryAcquire(t.Context(), "k")))
	wantIs(t, "the same name", checktest.ErrorOf(engine("mem:url-a").TryAcquire(t.Context(), "k")), core.ErrHeld)
	for _, other := range []string{"mem:url-b", "mem:", "mem:"} {
		_, err := engine(other).TryAcquire(t.Context(), "k")
		check(t, err == nil, "%s: %v", other, err)
	}
}

func TestURLRefuses(t *testing.T) {
	for _, url := range []string{"mem://host", "mem:?prefix=a", "mem:a?x=1", "mem://me@"} {
		_, err := storeurl.Open(t.Context(), url)
		check(t, errors.Is(err, storeurl.ErrInvalidURL), "%s: %v", url, err)
	}
}
