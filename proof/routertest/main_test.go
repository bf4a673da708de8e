package routertest

import (
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keys answers with the keys that the request runs under.
func keys(w http.ResponseWriter, r *http.Request) {
	lease, found := core.LeaseFrom(r.Context())
	if !found {
		fmt.Fprint(w, "unlocked")
		return
	}
	for _, c := range lease.Claims() {
		fmt.Fprint(w, c.Key)
	}
}

func user(r *http.Request) string { return r.Header.Get("User") }
