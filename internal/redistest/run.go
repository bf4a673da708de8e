package redistest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Run is the part of a testing.TB that this package needs, for a program that is no test.
// Start servers in Try, and call End when they are not needed any more. The zero value is ready, and
// safe for concurrent use.
type Run struct {
	testing.TB // nil: its other methods are not called

	mu       sync.Mutex
	cleanups []func()
	err      error
}

// failure is what Fatalf panics with: it must not return.
type failure struct{ err error }

// Helper implements testing.TB.
func (r *Run) Helper() {}

// Cleanup implements testing.TB. f runs in End.
func (r *Run) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// Fatalf implements testing.TB. The function that Try runs ends with it.
func (r *Run) Fatalf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// Fatal implements testing.TB.
func (r *Run) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// TempDir implements testing.TB.
func (r *Run) TempDir() string {
	dir, err := os.MkdirTemp("", "keyturn-")
	if err != nil {
		r.Fatalf("%w", err)
	}
	r.Cleanup(func() { r.err = errors.Join(r.err, os.RemoveAll(dir)) })
	return dir
}

// Try calls f. If f fails, Try returns its error. Then what f had started has ended.
func (r *Run) Try(f func()) error {
	err := r.Catch(f)
	if err != nil {
		err = errors.Join(err, r.End())
	}
	return err
}

// Catch is Try, except that everything that was started goes on after a failure.
func (r *Run) Catch(f func()) (err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failure:
			err = failed.err
		default:
			panic(failed)
		}
	}()
	f()
	return nil
}

// End ends everything that was started.
func (r *Run) End() error {
	for last := r.pop(); last != nil; last = r.pop() {
		last()
	}
	return r.err
}

// pop takes away the last cleanup.
func (r *Run) pop() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.cleanups)
	if n == 0 {
		return nil
	}
	last := r.cleanups[n-1]
	r.cleanups = r.cleanups[:n-1]
	return last
}
