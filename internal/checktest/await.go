package checktest

import (
	"testing"
	"time"
)

// Soon is when everything must have happened that needs no lease to run out, on a busy machine.
const Soon = 30 * time.Second

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Soon); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v it is not so that %s", Soon, what)
		}
	}
}

// Async calls do in a goroutine. What it returns comes by the channel.
func Async[T any](do func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- do() }()
	return result
}
