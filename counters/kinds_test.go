package counters

import (
	"testing"

	"github.com/keyturn/keyturn/internal/refusal"
)

// TestEveryRefusalHasAnOutcome fails for a kind that was added to package refusal and not to the outcomes.
func TestEveryRefusalHasAnOutcome(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		if outcomes[kind] == "" {
			t.Errorf("no outcome for kind %d, %s", kind, kind.Reason())
		}
	}
}
