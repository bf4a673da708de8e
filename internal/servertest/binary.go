package servertest

import (
	"os"
	"sync"
	"testing"
)

// Binary has what lives as long as a test binary, such as a server that its tests share. The zero
// value is ready for use.
type Binary struct {
	mu      sync.Mutex
	runs    bool
	cleanup []func()
}

// Runner is a *testing.M.
type Runner interface{ Run() int }

// Main returns m such that its Run ends what lives as long as the binary.
func (b *Binary) Main(m Runner) Runner { return binaryRunner{b, m} }

type binaryRunner struct {
	binary *Binary
	m      Runner
}

func (r binaryRunner) Run() int {
	b := r.binary
	b.mu.Lock()
	b.runs = true
	b.mu.Unlock()
	code := r.m.Run()
	for i := len(b.cleanup) - 1; i >= 0; i-- {
		b.cleanup[i]()
	}
	return code
}

// Runs reports whether there is such a binary: TestMain has called Main.
func (b *Binary) Runs() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs
}

// Lasting returns t, except that what it cleans up lives as long as the binary. t fails if TestMain
// has not called the function main, which calls Main.
func (b *Binary) Lasting(t testing.TB, main string) testing.TB {
	t.Helper()
	if !b.Runs() {
		t.Fatalf("TestMain has to call %s", main)
	}
	return lasting{t, b}
}

type lasting struct {
	testing.TB
	binary *Binary
}

func (l lasting) Cleanup(f func()) {
	l.binary.mu.Lock()
	defer l.binary.mu.Unlock()
	l.binary.cleanup = append(l.binary.cleanup, f)
}

// TempDir returns a directory that lasts as long.
func (l lasting) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "keyturn-")
	if err != nil {
		l.Fatalf("servertest: %v", err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
