//go:build unix && !linux

package redistest

import (
	"testing"
	"time"
)

// Clock is the wall clock of one server. Only servers on Linux can have one of their own.
type Clock struct{}

// HasClocks reports whether [StartWithClock] works here.
func HasClocks() bool { return false }

// StartWithClock fails the test.
func StartWithClock(t testing.TB, _ ...string) (*Server, *Clock) {
	t.Helper()
	t.Fatalf("redistest: a server's clock can be set on Linux only")
	return nil, nil
}

// Jump does nothing: there is no such clock.
func (c *Clock) Jump(time.Duration) {}
