package lockfunc_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wantOnly fails unless err matches all of want, and no other sentinel of core.
func wantOnly(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %v, want one that matches %v", err, w)
		}
	}
	if len(want) == 0 && err != nil {
		t.Errorf("error %v, want none", err)
	}
	for _, s := range []error{core.ErrHeld, core.ErrUnavailable, core.ErrInvalidKey, core.ErrInvalidOption, core.ErrLeaseLost, core.ErrResultNotKept} {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == s
		}
		if !wanted && errors.Is(err, s) {
			t.Errorf("error %v also matches %v", err, s)
		}
	}
}
