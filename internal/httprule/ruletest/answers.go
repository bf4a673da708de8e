package ruletest

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
)

// Waiting has somebody wait for key, which is held.
func Waiting(t testing.TB, eng *core.Engine, st *Store, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() {
		_, err := eng.Acquire(ctx, key, core.WithMaxWait(0))
		gone <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := Receive(t, "the waiter", gone); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter got %v", err)
		}
	})
	Until(t, "a waiter in line", func() bool { return st.Asked() == 1 })
}

// CheckRetryAfter checks whether the header is there.
func (a Answer) CheckRetryAfter(t testing.TB, want bool) {
	t.Helper()
	value := a.Header.Get("Retry-After")
	seconds, err := strconv.Atoi(value)
	if want && (err != nil || seconds < 1) {
		t.Errorf("Retry-After = %q, want at least a second", value)
	}
	if !want && value != "" {
		t.Errorf("Retry-After = %q, want none", value)
	}
}

// CheckDiscretion sees that the answer tells nothing of keys, holders, hosts
// and backends.
func (a Answer) CheckDiscretion(t testing.TB, key string) {
	t.Helper()
	host, _ := os.Hostname()
	said := a.Body
	for _, values := range a.Header {
		said += "\n" + strings.Join(values, "\n")
	}
	for _, secret := range []string{key, "user:status", host + "/", strconv.Itoa(os.Getpid()) + "/", "10.0.0.7", "keyturn", "lockecho", "lockhttp"} {
		if strings.Contains(said, secret) {
			t.Errorf("the answer says %q: %s", secret, said)
		}
	}
}
