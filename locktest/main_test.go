package locktest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
	wantNil = checktest.WantNil
	wantIs  = checktest.WantIs
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// judged is a test that is watched: whether it fails, and when it ends.
type judged struct {
	testing.TB
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (j *judged) Helper() {}

func (j *judged) Errorf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.said = append(j.said, fmt.Sprintf(format, args...))
}

func (j *judged) Cleanup(f func()) { j.cleanups = append(j.cleanups, f) }

// fatal ends a judged test.
type fatal string

func (j *judged) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

func (j *judged) end() {
	for _, f := range j.cleanups {
		f()
	}
}

// wantFailure fails unless the judged test failed once, saying so.
func wantFailure(t *testing.T, j *judged, says ...string) {
	t.Helper()
	require(t, len(j.said) == 1, "said %q, want one failure", j.said)
	for _, s := range says {
		check(t, strings.Contains(j.said[0], s), "%q does not say %q", j.said[0], s)
	}
}

func wantNone(t *testing.T, j *judged) {
	t.Helper()
	check(t, len(j.said) == 0, "failed: %q", j.said)
}
