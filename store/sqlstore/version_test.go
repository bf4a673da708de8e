package sqlstore

import (
	"math"
	"testing"
)

// TestVersionsKeepTheirOrder in a column that has no room for the greatest of them.
func TestVersionsKeepTheirOrder(t *testing.T) {
	last := int64(math.MinInt64)
	for _, v := range []uint64{1, 2, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		column := toColumn(v)
		if column <= last || fromColumn(column) != v {
			t.Errorf("%d is %d, behind %d, and then %d", v, column, last, fromColumn(column))
		}
		last = column
	}
}
