package tracing

import (
	"testing"

	"github.com/keyturn/keyturn/internal/refusal"
)

// TestEveryRefusalHasAVerdict fails for a kind that was added to package refusal
// and not to the verdicts.
func TestEveryRefusalHasAVerdict(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		if refusals[kind].outcome == "" {
			t.Errorf("no verdict on kind %d, %s", kind, kind.Reason())
		}
	}
}
