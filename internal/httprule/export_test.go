package httprule

import (
	"testing"
	"time"
)

// SetStall has clients that read nothing broken off sooner.
func SetStall(t *testing.T, d time.Duration) {
	before := stallAfter
	stallAfter = d
	t.Cleanup(func() { stallAfter = before })
}

// ForgetWarning has the process warn again, of anything.
func ForgetWarning() { warned.Store(false); unkeptSaid.Store(0) }
