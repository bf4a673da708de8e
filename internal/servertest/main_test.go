//go:build unix

package servertest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also is the server program of these tests: see serve.
func TestMain(m *testing.M) {
	if port := os.Getenv(portVariable); port != "" {
		serve(port)
		return
	}
	goleak.VerifyTestMain(m)
}
