package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

// AreRisks checks that Examine reads each setting, finds these risks and no others, and has advice for each. An
// address in what they are about is left out. A busy machine may elect a leader or break a connection meanwhile, so
// it looks again.
func AreRisks(t testing.TB, s driver.Store, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(checktest.Soon); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if got = risks(t, s); slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("risks %q, want %q", got, want)
}

func risks(t testing.TB, s driver.Store) (all []string) {
	t.Helper()
	for _, f := range s.Describe().Examine(t.Context()) {
		if (f.Risk == "") != (f.Advice == "") {
			t.Errorf("a risk without advice, or advice without a risk: %+v", f)
		}
		if about, _, _ := strings.Cut(f.About, " 127."); f.Risk != "" || f.Found == "" {
			all = append(all, about)
		}
	}
	return all
}
