//go:build linux

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

//go:embed preload/clock.c
var clockSource []byte

// Clock is the wall clock of one server, which can be set. A server goes by its wall clock for
// the ends of keys. Methods are meant for one goroutine at a time.
type Clock struct {
	t      testing.TB
	file   *os.File
	offset time.Duration
}

// HasClocks reports whether [StartWithClock] works here: it needs a C compiler.
func HasClocks() bool {
	_, err := exec.LookPath("cc")
	return err == nil
}

// StartWithClock is [Start], with a clock of its own for the server. The clock keeps its offset
// over a restart. It needs a C compiler, cc, as the race detector does.
func StartWithClock(t testing.TB, args ...string) (*Server, *Clock) {
	t.Helper()
	dir := t.TempDir()
	source, lib, offset := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("redistest: cc: %v\n%s", err, out)
	}
	if err := os.WriteFile(offset, make([]byte, 8), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	file, err := os.OpenFile(offset, os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s := start(t, "", "Ready to accept connections", args, []string{"LD_PRELOAD=" + lib, "KEYTURN_CLOCK=" + offset})
	return s, &Clock{t: t, file: file}
}

// Jump sets the clock forward by d, or back if d is negative.
func (c *Clock) Jump(d time.Duration) {
	c.t.Helper()
	c.offset += d
	// The server maps this file into its memory. It sees the new value at once.
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.offset.Microseconds())), 0); err != nil {
		c.t.Fatalf("redistest: clock: %v", err)
	}
}
