// Package checktest has what the tests of all packages check, await and run with.
package checktest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Must fails the test at once.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// That fails the test with a message unless ok.
func That(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// WantNil fails the test if err is an error.
func WantNil(t testing.TB, err error) {
	t.Helper()
	WantIs(t, "error", err, nil)
}

// WantIs fails the test unless err matches want. Either may be nil.
func WantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	That(t, errors.Is(err, want) && (err == nil) == (want == nil), "%s: %v, want %v", what, err, want)
}

// Within gives a context for a call that must not take longer.
func Within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Require fails the test at once, with a message, unless ok.
func Require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Each runs each case as a subtest, beside the others.
func Each[T any](t *testing.T, cases map[string]T, run func(t *testing.T, c T)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c)
		})
	}
}

// ErrorOf is the error of a call that returns a value, too.
func ErrorOf[T any](_ T, err error) error { return err }
