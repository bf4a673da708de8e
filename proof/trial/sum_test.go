package trial_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/proof/trial"
)

// TestSum: a history in which too little happened proves nothing, and is not wrong.
func TestSum(t *testing.T) {
	bad := errors.New("bad")
	var sum trial.Sum
	for _, r := range []trial.Report{{}, {Little: bad}, {Little: bad}, {Wrong: bad}, {Wrong: bad, Little: bad}, {Wrong: bad}} {
		sum.Add(&r)
	}
	if sum.Histories != 6 || sum.Wrong != 3 || sum.Little != 2 {
		t.Errorf("want 3 wrong and 2 with too little of 6, got %v", &sum)
	}
}
