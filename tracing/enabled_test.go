package tracing

import (
	"context"
	"testing"
)

// TestInstrumentsThatCannotBeAskedAreCollected: those of an API before 1.40.
func TestInstrumentsThatCannotBeAskedAreCollected(t *testing.T) {
	if !enabled(context.Background(), struct{}{}) {
		t.Error("an instrument without Enabled is not collected")
	}
}
