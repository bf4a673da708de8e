package tracing

import (
	"context"
	"testing"

	"github.com/keyturn/keyturn/core/observe"
	"github.com/keyturn/keyturn/internal/refusal"
)

// NewCached is New, and says for how many rules start options are kept.
func NewCached(opts ...Option) (_ observe.Hooks, rules func() int, _ error) {
	o, err := newObserver(opts)
	if err != nil {
		return observe.Hooks{}, nil, err
	}
	return o.hooks(), func() int { return len(o.starts.known) }, nil
}

// TestInstrumentsThatCannotBeAskedAreCollected: those of an API before 1.40.
func TestInstrumentsThatCannotBeAskedAreCollected(t *testing.T) {
	if !enabled(context.Background(), struct{}{}) {
		t.Error("an instrument without Enabled is not collected")
	}
}

// TestEveryRefusalHasAVerdict fails for a kind that was added to package refusal and not to the verdicts.
func TestEveryRefusalHasAVerdict(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		if refusals[kind].outcome == "" {
			t.Errorf("no verdict on kind %d, %s", kind, kind.Reason())
		}
	}
}
