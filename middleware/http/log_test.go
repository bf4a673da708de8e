package lockhttp_test

import (
	"log/slog"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
)

// quiet has the default logger write to a buffer while the test runs.
func quiet(t *testing.T) *ruletest.Buffer {
	t.Helper()
	before, log := slog.Default(), new(ruletest.Buffer)
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}
