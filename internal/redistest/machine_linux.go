package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed preload/machine.c
var machineSource []byte

// Machine is what one server finds below it: a wall clock that can be set, and a disk that can be
// slow. A server goes by its wall clock for the ends of keys. With [KeepData] it answers a write when
// the disk has it. Methods are meant for one goroutine at a time.
type Machine struct {
	t     testing.TB
	file  *os.File
	ahead time.Duration
}

// HasMachines reports whether [StartOnMachine] works here: it needs a C compiler.
func HasMachines() bool {
	_, err := exec.LookPath("cc")
	return err == nil
}

// StartOnMachine is [Start], with a machine of its own for the server. The machine stays the same
// over a restart. It needs a C compiler, cc, as the race detector does.
func StartOnMachine(t testing.TB, args ...string) (*Server, *Machine) {
	t.Helper()
	dir := t.TempDir()
	source, lib, state := filepath.Join(dir, "machine.c"), filepath.Join(dir, "machine.so"), filepath.Join(dir, "machine")
	if err := os.WriteFile(source, machineSource, 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("redistest: cc: %v\n%s", err, out)
	}
	if err := os.WriteFile(state, make([]byte, 16), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	file, err := os.OpenFile(state, os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s := start(t, "", "Ready to accept connections", args, []string{"LD_PRELOAD=" + lib, "KEYTURN_MACHINE=" + state})
	return s, &Machine{t: t, file: file}
}

// Jump sets the clock forward by d, or back if d is negative.
func (m *Machine) Jump(d time.Duration) {
	m.t.Helper()
	m.ahead += d
	m.set(0, m.ahead)
}

// SlowDisk makes the disk take d longer for each flush, until it is called with 0.
func (m *Machine) SlowDisk(d time.Duration) {
	m.t.Helper()
	m.set(8, d)
}

// set writes one of the numbers. The server maps their file into its memory, so it sees the new
// value at once.
func (m *Machine) set(at int64, d time.Duration) {
	m.t.Helper()
	if _, err := m.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d.Microseconds())), at); err != nil {
		m.t.Fatalf("redistest: machine: %v", err)
	}
}
