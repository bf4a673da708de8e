//go:build unix && !linux

package redistest

import (
	"testing"
	"time"
)

// Machine is what one server finds below it. Only servers on Linux can have one of their own.
type Machine struct{}

// HasMachines reports whether [StartOnMachine] works here.
func HasMachines() bool { return false }

// StartOnMachine fails the test.
func StartOnMachine(t testing.TB, _ ...string) (*Server, *Machine) {
	t.Helper()
	t.Fatalf("redistest: a server has a machine of its own on Linux only")
	return nil, nil
}

// Jump does nothing: there is no such clock.
func (m *Machine) Jump(time.Duration) {}

// SlowDisk does nothing: there is no such disk.
func (m *Machine) SlowDisk(time.Duration) {}
