package lockhttp

import (
	"testing"

	"github.com/keyturn/keyturn/internal/refusal"
)

// TestEveryRefusalHasAnAnswer fails for a kind that was added to package refusal and not to the answers.
func TestEveryRefusalHasAnAnswer(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		if _, ok := answers[kind]; !ok {
			t.Errorf("no answer to kind %d, %s", kind, kind.Reason())
		}
	}
}
