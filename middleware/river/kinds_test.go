package lockriver

import (
	"testing"

	"github.com/keyturn/keyturn/internal/refusal"
)

func TestEachKindOfRefusalHasAnAnswer(t *testing.T) {
	for _, k := range refusal.Kinds() {
		if answers[k] == nil {
			t.Errorf("no answer to %s", k.Reason())
		}
	}
}
