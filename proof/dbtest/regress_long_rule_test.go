package dbtest

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// The name of a rule was longer than the column that MariaDB has for it, and every request failed.
func TestLongNamesOfRules(t *testing.T) {
	t.Parallel()
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialect.database(t)
			migrate(t, d)
			eng := engineOn(t, d.Open(t), dialect.Dialect)
			lease, err := eng.Acquire(t.Context(), "k", core.WithRule(strings.Repeat("é", driver.MaxNoteBytes)+"!"))
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
